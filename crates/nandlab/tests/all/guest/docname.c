// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Gives the whole of mtd0's chip a second name, one that the kernel's nftl accepts.
 *
 * User space cannot: BLKPG is for whole chips only, and nandsim shows none but its own partitions.
 */

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mtd/mtd.h>
#include <linux/mtd/partitions.h>

static int __init docname_init(void)
{
	struct mtd_info *first = get_mtd_device(NULL, 0);
	int error;

	if (IS_ERR(first))
		return PTR_ERR(first);
	error = mtd_add_partition(mtd_get_master(first), "DiskOnChip by another name", 0, MTDPART_SIZ_FULL);
	put_mtd_device(first);
	return error;
}

static void __exit docname_exit(void)
{
}

module_init(docname_init);
module_exit(docname_exit);
MODULE_DESCRIPTION("A name for nandsim that nftl accepts");
MODULE_LICENSE("Dual MIT/GPL");
