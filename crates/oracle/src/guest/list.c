/* `list DIR KEY`: writes one frame to standard output, with every entry of the tree below DIR. A
 * single static program, because each start of a process costs an emulated guest dearly.
 *
 * An entry is two strings, each with a NUL behind it. The first is
 * `MODE LINKS UID GID SIZE SECONDS NANOS MAJOR MINOR PATH`, with the mode in hexadecimal. The second
 * is the SHA-256 of a file or the target of a link; it is empty for others, and where the guest
 * could not read. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int status;

static void complain(const char *path, int error)
{
    fprintf(stderr, "list: %s: %s\n", path, strerror(error));
    status = 1;
}

/* SHA-256 as in FIPS 180-4. The constants are the first bits of the fractional parts of the cube
 * roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, int by)
{
    return word >> by | word << (32 - by);
}

static void mix(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | block[4 * i + 1] << 16 | block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) +
               (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t one = s[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
                       ((e & s[5]) ^ (~e & s[6])) + K[i] + w[i];
        uint32_t two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
                       ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

/* Hashes what `file` holds; false if it cannot be read. */
static int hash(int file, uint32_t state[8])
{
    static const uint32_t begin[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    static uint8_t buffer[65536 + 128];
    uint64_t length = 0;
    size_t kept = 0;
    ssize_t got;
    memcpy(state, begin, sizeof begin);
    while ((got = read(file, buffer + kept, 65536)) > 0) {
        size_t at = 0;
        length += got;
        for (kept += got; kept >= 64; kept -= 64, at += 64)
            mix(state, buffer + at);
        memmove(buffer, buffer + at, kept);
    }
    buffer[kept++] = 0x80;
    size_t end = kept <= 56 ? 64 : 128;
    memset(buffer + kept, 0, end - kept);
    for (int i = 0; i < 8; i++)
        buffer[end - 1 - i] = length << 3 >> (8 * i);
    for (size_t at = 0; at < end; at += 64)
        mix(state, buffer + at);
    return got == 0;
}

static void contents(FILE *out, const FTSENT *entry)
{
    uint32_t state[8];
    int file = open(entry->fts_accpath, O_RDONLY | O_NOFOLLOW);
    if (file < 0 || !hash(file, state))
        complain(entry->fts_path, errno);
    else
        for (int i = 0; i < 8; i++)
            fprintf(out, "%08x", state[i]);
    if (file >= 0)
        close(file);
}

static void target(FILE *out, const FTSENT *entry)
{
    char text[PATH_MAX];
    ssize_t length = readlink(entry->fts_accpath, text, sizeof text);
    if (length < 0)
        complain(entry->fts_path, errno);
    else
        fwrite(text, 1, length, out);
}

static void record(FILE *out, const FTSENT *entry)
{
    const struct stat *s = entry->fts_statp;
    fprintf(out, "%x %ju %u %u %ju %jd %ld %x %x %s", s->st_mode, (uintmax_t)s->st_nlink,
            s->st_uid, s->st_gid, (uintmax_t)s->st_size, (intmax_t)s->st_mtim.tv_sec,
            s->st_mtim.tv_nsec, major(s->st_rdev), minor(s->st_rdev), entry->fts_path);
    fputc(0, out);
    if (S_ISREG(s->st_mode))
        contents(out, entry);
    else if (S_ISLNK(s->st_mode))
        target(out, entry);
    fputc(0, out);
}

int main(int count, char **words)
{
    char here[] = ".", *roots[] = {here, NULL}, *tree;
    size_t length;
    FILE *out = open_memstream(&tree, &length);
    if (count != 3 || !out || chdir(words[1])) {
        complain(count == 3 ? words[1] : "expected DIR KEY", errno);
        return 1;
    }
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *entry;
    while (walk && (errno = 0, entry = fts_read(walk))) {
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS)
            complain(entry->fts_path, entry->fts_errno);
        else if (entry->fts_info != FTS_DP)
            record(out, entry);
    }
    if (errno)
        complain(words[1], errno);
    fclose(out);
    printf("tree %s %zu\n", words[2], length);
    fwrite(tree, 1, length, stdout);
    if (fflush(stdout))
        complain("standard output", errno);
    return status;
}
