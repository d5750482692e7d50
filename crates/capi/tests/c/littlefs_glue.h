/* littlefs on a chip of nandlab. */
#include "lfs.h"
#include "nandlab.h"

/* Programs of pages that a cut has torn, refused so far. */
extern unsigned refused_programs;

/* Fills a configuration whose blocks are the chip's erase blocks and whose units are its pages. */
struct lfs_config littlefs_on(nandlab_chip *chip);
