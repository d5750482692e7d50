/* What lib/bch.c and ecc-sw-hamming.c of Linux need of a kernel, for a program. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The C library defines both orders as numbers, the kernel defines its own order only. */
#undef __BIG_ENDIAN

typedef uint8_t u8;
typedef uint32_t u32;

#define GFP_KERNEL 0
#define KERN_ERR ""
#define kmalloc(size, flags) malloc(size)
#define kzalloc(size, flags) calloc(1, size)
#define kfree(pointer) free(pointer)
#define WARN_ON(condition) (condition)
#define printk(...) fprintf(stderr, __VA_ARGS__)
#define pr_err(...) fprintf(stderr, __VA_ARGS__)
#define EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_GPL(name)
#define MODULE_LICENSE(text)
#define MODULE_AUTHOR(text)
#define MODULE_DESCRIPTION(text)
#define DIV_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define cpu_to_be32(word) __builtin_bswap32(word)
#define fls(word) ((word) ? 32 - __builtin_clz(word) : 0)
