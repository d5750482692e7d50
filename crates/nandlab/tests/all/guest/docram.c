// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The flash of a DiskOnChip in memory: an MTD of raw NAND for the kernel's nftl.
 *
 * Pages of 512 bytes with 16 spare ones, blocks of 16 KiB unless set otherwise. All spare bytes are the user's: there is no error correction, the sixth byte
 * of a block's first two pages is its bad-block marker. An erase sets all bits, a program only clears them. Nothing takes time.
 *
 * The array as `nanddump -o` would write it, each page's data and then its spare bytes, is read and written through /dev/docram; what
 * was done is counted in /sys/module/docram/parameters.
 */

#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include <linux/string.h>
#include <linux/timex.h>
#include <linux/vmalloc.h>

#include "docram.h"

#define PAGE_DATA 512
#define PAGE_OOB 16
#define CELL (PAGE_DATA + PAGE_OOB)
#define MARKER 5

static uint units = 1024;
module_param(units, uint, 0444);
MODULE_PARM_DESC(units, "erase blocks");

static uint pages = 32;
module_param(pages, uint, 0444);
MODULE_PARM_DESC(pages, "pages of an erase block");

static struct docram_counts counts;
module_param_named(page_reads, counts.page_reads, ullong, 0444);
module_param_named(oob_reads, counts.oob_reads, ullong, 0444);
module_param_named(page_programs, counts.page_programs, ullong, 0444);
module_param_named(oob_programs, counts.oob_programs, ullong, 0444);
module_param_named(erases, counts.erases, ullong, 0444);
module_param_named(raised, counts.raised, ullong, 0444);

static u8 *array;
static struct mtd_info flash;

static size_t array_bytes(void)
{
	return (size_t)units * pages * CELL;
}

static u8 *cell(u64 page)
{
	return array + page * CELL;
}

static void program(u8 *to, const u8 *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		counts.raised += from[i] != 0xff && (to[i] & from[i]) != from[i];
		to[i] &= from[i];
	}
}

/* One page's part of a request: `in_page` and `data` say which bytes of it, `oob` how many spare ones. */
struct part {
	u64 page;
	u32 in_page, data, in_oob, oob;
};

/* Takes the next page's part off a request that begins at `from`, of which `ops` says how much is done. */
static struct part next_part(loff_t from, const struct mtd_oob_ops *ops)
{
	loff_t at = from + ops->retlen;
	struct part part = { .page = at / PAGE_DATA, .in_page = at % PAGE_DATA, .in_oob = ops->ooboffs };

	if (ops->datbuf)
		part.data = min_t(size_t, ops->len - ops->retlen, PAGE_DATA - part.in_page);
	else if (ops->oobretlen)
		part.page += DIV_ROUND_UP(ops->oobretlen, PAGE_OOB - ops->ooboffs);
	if (ops->oobbuf)
		part.oob = min_t(size_t, ops->ooblen - ops->oobretlen, PAGE_OOB - ops->ooboffs);
	if (part.page >= (u64)units * pages) /* spare bytes asked for beyond the last page */
		part.data = part.oob = 0;
	return part;
}

static int docram_read_oob(struct mtd_info *mtd, loff_t from, struct mtd_oob_ops *ops)
{
	cycles_t entered = get_cycles();

	for (;;) {
		struct part part = next_part(from, ops);

		if (!part.data && !part.oob)
			break;
		if (part.data) {
			memcpy(ops->datbuf + ops->retlen, cell(part.page) + part.in_page, part.data);
			counts.page_reads++;
		} else {
			counts.oob_reads++;
		}
		if (part.oob)
			memcpy(ops->oobbuf + ops->oobretlen, cell(part.page) + PAGE_DATA + part.in_oob, part.oob);
		ops->retlen += part.data;
		ops->oobretlen += part.oob;
	}
	counts.inside += get_cycles() - entered;
	return 0;
}

static bool is_bad(u32 unit)
{
	u64 page = (u64)unit * pages;

	return cell(page)[PAGE_DATA + MARKER] != 0xff || cell(page + 1)[PAGE_DATA + MARKER] != 0xff;
}

static int docram_write_oob(struct mtd_info *mtd, loff_t to, struct mtd_oob_ops *ops)
{
	cycles_t entered = get_cycles();

	if (ops->datbuf && (to % PAGE_DATA || ops->len % PAGE_DATA))
		return -EINVAL;
	for (;;) {
		struct part part = next_part(to, ops);

		if (!part.data && !part.oob)
			break;
		if (part.data) {
			program(cell(part.page), ops->datbuf + ops->retlen, part.data);
			counts.page_programs++;
		} else {
			counts.oob_programs++;
		}
		program(cell(part.page) + PAGE_DATA + part.in_oob, ops->oobbuf + ops->oobretlen, part.oob);
		ops->retlen += part.data;
		ops->oobretlen += part.oob;
	}
	counts.inside += get_cycles() - entered;
	return 0;
}

static int docram_erase(struct mtd_info *mtd, struct erase_info *instr)
{
	cycles_t entered = get_cycles();
	u32 unit = instr->addr / flash.erasesize, end = (instr->addr + instr->len) / flash.erasesize;

	for (; unit < end; unit++) {
		if (is_bad(unit)) {
			instr->fail_addr = (u64)unit * flash.erasesize;
			return -EIO;
		}
		memset(cell((u64)unit * pages), 0xff, pages * CELL);
		counts.erases++;
	}
	counts.inside += get_cycles() - entered;
	return 0;
}

static int docram_isbad(struct mtd_info *mtd, loff_t at)
{
	return is_bad(at / flash.erasesize);
}

static int docram_markbad(struct mtd_info *mtd, loff_t at)
{
	cell((u64)(at / flash.erasesize) * pages)[PAGE_DATA + MARKER] = 0;
	return 0;
}

static int layout_free(struct mtd_info *mtd, int section, struct mtd_oob_region *region)
{
	if (section)
		return -ERANGE;
	region->offset = 0;
	region->length = PAGE_OOB;
	return 0;
}

static int layout_ecc(struct mtd_info *mtd, int section, struct mtd_oob_region *region)
{
	return -ERANGE;
}

static const struct mtd_ooblayout_ops layout = { .free = layout_free, .ecc = layout_ecc };

static ssize_t array_read(struct file *file, char __user *to, size_t n, loff_t *at)
{
	return simple_read_from_buffer(to, n, at, array, array_bytes());
}

static ssize_t array_write(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	return simple_write_to_buffer(array, array_bytes(), at, from, n);
}

static const struct file_operations array_ops = {
	.owner = THIS_MODULE,
	.read = array_read,
	.write = array_write,
	.llseek = default_llseek,
};

static struct miscdevice array_device = { .minor = MISC_DYNAMIC_MINOR, .name = "docram", .fops = &array_ops };

static struct mtd_info flash = {
	.name = DOCRAM_NAME,
	.type = MTD_NANDFLASH,
	.flags = MTD_CAP_NANDFLASH,
	.writesize = PAGE_DATA,
	.writebufsize = PAGE_DATA,
	.oobsize = PAGE_OOB,
	.oobavail = PAGE_OOB,
	.owner = THIS_MODULE,
	.priv = &counts,
	._erase = docram_erase,
	._read_oob = docram_read_oob,
	._write_oob = docram_write_oob,
	._block_isbad = docram_isbad,
	._block_markbad = docram_markbad,
};

static int __init docram_init(void)
{
	int error;

	array = vmalloc(array_bytes());
	if (!array)
		return -ENOMEM;
	memset(array, 0xff, array_bytes());
	flash.erasesize = pages * PAGE_DATA;
	flash.size = (u64)units * flash.erasesize;
	mtd_set_ooblayout(&flash, &layout);
	error = misc_register(&array_device);
	if (error)
		goto free;
	error = mtd_device_register(&flash, NULL, 0);
	if (error)
		goto deregister;
	return 0;

deregister:
	misc_deregister(&array_device);
free:
	vfree(array);
	return error;
}

static void __exit docram_exit(void)
{
	WARN_ON(mtd_device_unregister(&flash));
	misc_deregister(&array_device);
	vfree(array);
}

module_init(docram_init);
module_exit(docram_exit);
MODULE_DESCRIPTION("The flash of a DiskOnChip in memory");
MODULE_LICENSE("Dual MIT/GPL");
