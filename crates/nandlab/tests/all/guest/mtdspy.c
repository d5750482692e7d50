// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Measures what a simulated flash takes, whoever uses it: stands between the MTD core and the flash of number `mtd`.
 *
 * The ticks of the processor's clock spent in its operations, and how many there were, are in /sys/module/mtdspy/parameters. Load it before the flash is used, and
 * unload it after.
 */

#include <linux/err.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include <linux/mtd/partitions.h>
#include <linux/timex.h>

static uint mtd;
module_param(mtd, uint, 0444);

static unsigned long long inside, operations;
module_param(inside, ullong, 0444);
module_param(operations, ullong, 0444);

static struct mtd_info *used, *flash;

/* The flash as it was. */
static struct mtd_info real;

#define MEASURED(call)                          \
	({                                      \
		cycles_t start = get_cycles();  \
		int result = (call);            \
		inside += get_cycles() - start; \
		operations++;                   \
		result;                         \
	})

static int spy_read(struct mtd_info *on, loff_t from, size_t n, size_t *done, u_char *to)
{
	return MEASURED(real._read(on, from, n, done, to));
}

static int spy_write(struct mtd_info *on, loff_t to, size_t n, size_t *done, const u_char *from)
{
	return MEASURED(real._write(on, to, n, done, from));
}

static int spy_read_oob(struct mtd_info *on, loff_t from, struct mtd_oob_ops *ops)
{
	return MEASURED(real._read_oob(on, from, ops));
}

static int spy_write_oob(struct mtd_info *on, loff_t to, struct mtd_oob_ops *ops)
{
	return MEASURED(real._write_oob(on, to, ops));
}

static int spy_erase(struct mtd_info *on, struct erase_info *what)
{
	return MEASURED(real._erase(on, what));
}

static int __init mtdspy_init(void)
{
	used = get_mtd_device(NULL, mtd);
	if (IS_ERR(used))
		return PTR_ERR(used);
	flash = mtd_get_master(used);
	real = *flash;
	/* What a flash does not have stays that way: the core asks. */
	flash->_read = real._read ? spy_read : NULL;
	flash->_write = real._write ? spy_write : NULL;
	flash->_read_oob = real._read_oob ? spy_read_oob : NULL;
	flash->_write_oob = real._write_oob ? spy_write_oob : NULL;
	flash->_erase = spy_erase;
	return 0;
}

static void __exit mtdspy_exit(void)
{
	flash->_read = real._read;
	flash->_write = real._write;
	flash->_read_oob = real._read_oob;
	flash->_write_oob = real._write_oob;
	flash->_erase = real._erase;
	put_mtd_device(used);
}

module_init(mtdspy_init);
module_exit(mtdspy_exit);
MODULE_DESCRIPTION("Measures what a simulated flash takes");
MODULE_LICENSE("Dual MIT/GPL");
