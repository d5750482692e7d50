/* The kernel's UBI as one module, with the fastmap that Debian leaves out. The sources are Debian's package of the kernel's, unchanged but for their names. */
#define CONFIG_MTD_UBI_FASTMAP 1
#undef CONFIG_MTD_UBI_BLOCK
#include "vtbl.inc"
#include "vmt.inc"
#include "upd.inc"
#include "build.inc"
#include "cdev.inc"
#include "kapi.inc"
#include "eba.inc"
/* Two static functions have namesakes in another file. */
#define do_sync_erase io_do_sync_erase
#define validate_vid_hdr io_validate_vid_hdr
#include "io.inc"
#undef do_sync_erase
#undef validate_vid_hdr
#include "wl.inc"
#include "attach.inc"
#include "misc.inc"
#include "debug.inc"
#include "fastmap.inc"
