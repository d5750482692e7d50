// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Measures paths of the kernel, one call at a time, in ticks of the processor's clock.
 *
 * Write `PATH COUNT [FIRST STEP]` to /dev/costs: the path is run COUNT times, with the numbers FIRST, FIRST + STEP ... as its sectors, pages or
 * bytes. Then read one line for each run: ticks in all, ticks inside the flash of docram.c, and how often that was asked to read spare
 * bytes, read pages, program pages, program spare bytes and erase. What a line costs without any path is the path `nothing`.
 */

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/major.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/mtd/blktrans.h>
#include <linux/mtd/mtd.h>
#include <linux/mtd/nand-ecc-sw-hamming.h>
#include <linux/mtd/nftl.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "docram.h"

#define RUNS_MAX 16384
#define LINE_MAX_BYTES 160

/* What compressors and checksums work on. */
#define PAGE "/tmp/page"

/* What a path needs; only what it asks for is there. */
struct place {
	struct mtd_info *flash;
	struct mtd_blktrans_dev *nftl;
	struct block_device *disk;
	u8 *page, *other;
	unsigned long user; /* a page of the program that asks */
};

struct kernel_path {
	const char *name;
	const char *device; /* a block device to open, a file that `page` is read from, or none */
	int (*run)(struct place *place, unsigned long number);
};

static int nothing(struct place *place, unsigned long number)
{
	return 0;
}

/* One sector through the translation layer alone, without the block layer. */
static int nftl_read(struct place *place, unsigned long sector)
{
	if (sector >= place->nftl->size)
		return -ERANGE;
	return place->nftl->tr->readsect(place->nftl, sector, place->page);
}

static int nftl_write(struct place *place, unsigned long sector)
{
	if (sector >= place->nftl->size)
		return -ERANGE;
	return place->nftl->tr->writesect(place->nftl, sector, place->page);
}

/* The same operations as nftl issues, through the MTD core. */
static int mtd_oob(struct place *place, unsigned long page)
{
	struct mtd_oob_ops ops = { .mode = MTD_OPS_PLACE_OOB, .ooblen = 8, .oobbuf = place->page };

	return mtd_read_oob(place->flash, page * 512, &ops);
}

static int mtd_page(struct place *place, unsigned long page)
{
	size_t read;

	return mtd_read(place->flash, page * 512, 512, &read, place->page);
}

/* One bio of one sector, from submission to completion. */
static int bio_write(struct place *place, unsigned long sector)
{
	struct bio *bio = bio_alloc(place->disk, 1, REQ_OP_WRITE | REQ_SYNC, GFP_KERNEL);
	int error;

	bio->bi_iter.bi_sector = sector;
	__bio_add_page(bio, virt_to_page(place->page), 512, offset_in_page(place->page));
	error = submit_bio_wait(bio);
	bio_put(bio);
	return error;
}

static int hamming(struct place *place, unsigned long bytes)
{
	return ecc_sw_hamming_calculate(place->page, bytes, place->other, false);
}

static int copy(struct place *place, unsigned long bytes)
{
	memcpy(place->other, place->page, bytes);
	OPTIMIZER_HIDE_VAR(place->other);
	return 0;
}

#include "work.h"

static const struct kernel_path paths[] = {
	{ "nothing", NULL, nothing },
	{ "nftl-read", "/dev/nftla", nftl_read },
	{ "nftl-write", "/dev/nftla", nftl_write },
	{ "mtd-oob", NULL, mtd_oob },
	{ "mtd-page", NULL, mtd_page },
	{ "bio", "/dev/ram0", bio_write },
	{ "hamming", NULL, hamming },
	{ "copy", NULL, copy },
	{ "deflate", PAGE, deflate },
	{ "inflate", PAGE, inflate },
	{ "lzo", PAGE, lzo },
	{ "unlzo", PAGE, unlzo },
	{ "crc", PAGE, crc },
	{ "from-user", NULL, from_user },
	{ "enqueue", NULL, enqueue },
	{ "dequeue", NULL, dequeue },
};

struct line {
	cycles_t ticks;
	struct docram_counts counts;
};

static DEFINE_MUTEX(lock);
static char *text;
static size_t text_bytes;

static void snapshot(struct docram_counts *to, const struct mtd_info *flash)
{
	if (flash)
		*to = *(const struct docram_counts *)flash->priv;
}

static int measure(const struct kernel_path *path, struct place *place, unsigned long number, struct line *line)
{
	struct docram_counts before = {}, after = {};
	cycles_t start;
	int error;

	snapshot(&before, place->flash);
	start = get_cycles();
	error = path->run(place, number);
	line->ticks = get_cycles() - start;
	snapshot(&after, place->flash);
	line->counts.inside = after.inside - before.inside;
	line->counts.oob_reads = after.oob_reads - before.oob_reads;
	line->counts.page_reads = after.page_reads - before.page_reads;
	line->counts.page_programs = after.page_programs - before.page_programs;
	line->counts.oob_programs = after.oob_programs - before.oob_programs;
	line->counts.erases = after.erases - before.erases;
	return error;
}

static void print(const struct line *line)
{
	const struct docram_counts *c = &line->counts;

	text_bytes += scnprintf(text + text_bytes, LINE_MAX_BYTES, "%llu %llu %llu %llu %llu %llu %llu\n", (u64)line->ticks, c->inside,
				c->oob_reads, c->page_reads, c->page_programs, c->oob_programs, c->erases);
}

static int run_all(const struct kernel_path *path, struct place *place, u32 count, unsigned long first, unsigned long step)
{
	struct line *lines = vcalloc(count, sizeof(*lines));
	int error = 0;
	u32 i;

	if (!lines)
		return -ENOMEM;
	for (i = 0; i < count && !error; i++)
		error = measure(path, place, first + i * step, &lines[i]);
	text_bytes = 0;
	for (i = 0; i < count && !error; i++)
		print(&lines[i]);
	vfree(lines);
	return error;
}

/* A block device to work on, or a file of what to work on. */
static int take(struct file *file, struct place *place)
{
	loff_t at = 0;

	if (!S_ISBLK(file_inode(file)->i_mode))
		return kernel_read(file, place->page, PAGE_SIZE, &at) == PAGE_SIZE ? 0 : -ENODATA;
	place->disk = I_BDEV(file->f_mapping->host);
	if (MAJOR(place->disk->bd_dev) == NFTL_MAJOR)
		place->nftl = place->disk->bd_disk->private_data;
	return 0;
}

/* Opens what the path works on, runs it, and closes again. */
static int run_path(const struct kernel_path *path, u32 count, unsigned long first, unsigned long step)
{
	struct file *file = NULL;
	struct place place = { .page = kzalloc(PAGE_SIZE, GFP_KERNEL), .other = kzalloc(PAGE_SIZE, GFP_KERNEL) };
	int error = -ENOMEM;

	place.user = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(place.user))
		goto free;
	place.flash = get_mtd_device_nm(DOCRAM_NAME);
	if (IS_ERR(place.flash))
		place.flash = NULL;
	if (!place.page || !place.other)
		goto out;
	memset(place.page, 0xa5, PAGE_SIZE);
	error = clear_user((void __user *)place.user, PAGE_SIZE) ? -EFAULT : 0;
	if (!error && path->device) {
		file = filp_open(path->device, O_RDWR, 0);
		error = PTR_ERR_OR_ZERO(file);
		if (error)
			goto out;
		error = take(file, &place);
	}
	if (!error)
		error = run_all(path, &place, count, first, step);
	if (file)
		filp_close(file, NULL);
out:
	vm_munmap(place.user, PAGE_SIZE);
	if (place.flash)
		put_mtd_device(place.flash);
free:
	kfree(place.page);
	kfree(place.other);
	return error;
}

static ssize_t costs_write(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	char command[80] = "", name[16];
	unsigned long first = 0, step = 0;
	u32 count, i;
	int error = -EINVAL;

	if (n >= sizeof(command))
		return -EINVAL;
	if (copy_from_user(command, from, n))
		return -EFAULT;
	if (sscanf(command, "%15s %u %lu %lu", name, &count, &first, &step) < 2 || count > RUNS_MAX)
		return -EINVAL;
	mutex_lock(&lock);
	for (i = 0; i < ARRAY_SIZE(paths); i++)
		if (!strcmp(name, paths[i].name))
			error = run_path(&paths[i], count, first, step);
	mutex_unlock(&lock);
	return error ? error : n;
}

static ssize_t costs_read(struct file *file, char __user *to, size_t n, loff_t *at)
{
	ssize_t done;

	mutex_lock(&lock);
	done = simple_read_from_buffer(to, n, at, text, text_bytes);
	mutex_unlock(&lock);
	return done;
}

static const struct file_operations costs_ops = {
	.owner = THIS_MODULE,
	.read = costs_read,
	.write = costs_write,
	.llseek = default_llseek,
};

static struct miscdevice costs_device = { .minor = MISC_DYNAMIC_MINOR, .name = "costs", .fops = &costs_ops };

static int __init costs_init(void)
{
	int error = work_init();

	if (error)
		return error;
	text = vmalloc((size_t)RUNS_MAX * LINE_MAX_BYTES);
	error = text ? misc_register(&costs_device) : -ENOMEM;
	if (!error)
		return 0;
	vfree(text);
	work_exit();
	return error;
}

static void __exit costs_exit(void)
{
	misc_deregister(&costs_device);
	vfree(text);
	work_exit();
}

module_init(costs_init);
module_exit(costs_exit);
MODULE_DESCRIPTION("Measures paths of the kernel");
MODULE_LICENSE("Dual MIT/GPL");
