/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a processor does for a page of a file: compressors and checksum, called as JFFS2 calls them (fs/jffs2/compr_zlib.c, compr_lzo.c), copies, and
 * elements of a queue. Paths of costs.c, which includes this file once.
 *
 * `deflate` and `lzo` leave what became of `place->page` for `inflate` and `unlzo`.
 */

#include <linux/crc32.h>
#include <linux/list.h>
#include <linux/lzo.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/zlib.h>
#include <linux/zutil.h>

/* JFFS2's level, and what it keeps free at the end of its buffer for the last bytes of a stream. */
#define LEVEL 3
#define END_BYTES 12

static z_stream deflating, inflating;
static u8 *lzo_memory, *packed;

/* Bytes of the packed page; none if it did not get smaller. */
static uint packed_bytes;
module_param_named(packed, packed_bytes, uint, 0444);

static void work_exit(void)
{
	vfree(deflating.workspace);
	vfree(inflating.workspace);
	vfree(lzo_memory);
	vfree(packed);
}

static int work_init(void)
{
	deflating.workspace = vmalloc(zlib_deflate_workspacesize(MAX_WBITS, MAX_MEM_LEVEL));
	inflating.workspace = vmalloc(zlib_inflate_workspacesize());
	lzo_memory = vmalloc(LZO1X_MEM_COMPRESS);
	packed = vmalloc(lzo1x_worst_compress(PAGE_SIZE));
	if (deflating.workspace && inflating.workspace && lzo_memory && packed)
		return 0;
	work_exit();
	return -ENOMEM;
}

/* The page flushed piece by piece into all but the end of a page, then the stream's end. */
static int deflate(struct place *place, unsigned long number)
{
	z_stream *z = &deflating;
	unsigned long bytes = number ?: PAGE_SIZE;
	int error;

	packed_bytes = 0;
	if (zlib_deflateInit(z, LEVEL) != Z_OK)
		return -EIO;
	z->next_in = place->page;
	z->next_out = packed;
	z->total_in = z->total_out = 0;
	do {
		z->avail_out = bytes - END_BYTES - z->total_out;
		z->avail_in = min_t(ulong, bytes - z->total_in, z->avail_out);
		error = zlib_deflate(z, Z_PARTIAL_FLUSH);
	} while (error == Z_OK && z->total_in < bytes && z->total_out < bytes - END_BYTES);
	if (error == Z_OK) {
		z->avail_out += END_BYTES;
		z->avail_in = 0;
		error = zlib_deflate(z, Z_FINISH);
	}
	zlib_deflateEnd(z);
	if (error == Z_STREAM_END && z->total_out < z->total_in)
		packed_bytes = z->total_out;
	return 0;
}

/* The raw stream behind the two bytes of a header: so no checksum is looked at. */
static int inflate(struct place *place, unsigned long number)
{
	z_stream *z = &inflating;

	if (!packed_bytes)
		return -ENODATA;
	z->next_in = packed + 2;
	z->avail_in = packed_bytes - 2;
	z->next_out = place->other;
	z->avail_out = PAGE_SIZE;
	z->total_in = z->total_out = 0;
	if (zlib_inflateInit2(z, -MAX_WBITS) != Z_OK || zlib_inflate(z, Z_FINISH) != Z_STREAM_END || z->total_out != PAGE_SIZE)
		return -EIO;
	zlib_inflateEnd(z);
	return 0;
}

static int lzo(struct place *place, unsigned long number)
{
	size_t bytes;
	unsigned long from = number ?: PAGE_SIZE;

	packed_bytes = 0;
	if (lzo1x_1_compress(place->page, from, packed, &bytes, lzo_memory) != LZO_E_OK)
		return -EIO;
	if (bytes > from)
		return 0;
	memcpy(place->other, packed, bytes);
	packed_bytes = bytes;
	return 0;
}

static int unlzo(struct place *place, unsigned long number)
{
	size_t bytes = PAGE_SIZE;

	return lzo1x_decompress_safe(packed, packed_bytes, place->other, &bytes) || bytes != PAGE_SIZE ? -EIO : 0;
}

static int crc(struct place *place, unsigned long bytes)
{
	WRITE_ONCE(*(u32 *)place->other, crc32(0, place->page, bytes));
	return 0;
}

static int from_user(struct place *place, unsigned long bytes)
{
	return copy_from_user(place->other, (void __user *)place->user, bytes) ? -EFAULT : 0;
}

struct element {
	struct list_head list;
	struct page *page;
	u8 more[64 - sizeof(struct list_head) - sizeof(struct page *)];
};

static LIST_HEAD(queue);

/* An element at the end of a queue, with a page that it holds. */
static int enqueue(struct place *place, unsigned long number)
{
	struct element *element = kmalloc(sizeof(*element), GFP_KERNEL);

	if (!element)
		return -ENOMEM;
	element->page = ZERO_PAGE(0);
	get_page(element->page);
	list_add_tail(&element->list, &queue);
	return 0;
}

static int dequeue(struct place *place, unsigned long number)
{
	struct element *element = list_first_entry_or_null(&queue, struct element, list);

	if (!element)
		return -ENODATA;
	list_del(&element->list);
	put_page(element->page);
	kfree(element);
	return 0;
}
