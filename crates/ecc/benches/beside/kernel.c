/*
 * Times the kernel's code on a file of steps: PROGRAM CODE WORK FILE.
 *
 * CODE is hamming or the strength of a BCH code, WORK is encode or correct. FILE has four 32-bit
 * numbers (bytes of a step, of its parity, m, count), then the steps as they are read, each with
 * its parity, then the same as they were written. Prints nanoseconds a step, of processor time.
 * Includes the kernel's files, which the benchmark takes out of Debian's package.
 */
#include "kernel.h"
#include <time.h>
#include "bch.c"
#include "hamming.c"

static uint32_t step, parity_bytes, order, count;
static struct bch_control *bch;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void encode(const uint8_t *data, uint8_t *code)
{
	if (!bch) {
		ecc_sw_hamming_calculate(data, step, code, false);
		return;
	}
	memset(code, 0, parity_bytes);
	bch_encode(bch, data, step, code);
}

static void correct(uint8_t *data, uint8_t *code)
{
	uint8_t computed[128];
	unsigned int places[64];
	int found, i;

	encode(data, computed);
	if (!bch) {
		ecc_sw_hamming_correct(data, code, computed, step, false);
		return;
	}
	found = bch_decode(bch, NULL, step, code, computed, NULL, places);
	for (i = 0; i < found; i++)
		if (places[i] < step * 8)
			data[places[i] / 8] ^= 1 << (places[i] % 8);
}

static double round_of(bool encodes, uint8_t *work, const uint8_t *read, size_t bytes)
{
	uint32_t i;
	double began;

	memcpy(work, read, bytes);
	began = now();
	for (i = 0; i < count; i++) {
		uint8_t *data = work + (size_t)i * (step + parity_bytes);

		if (encodes)
			encode(data, data + step);
		else
			correct(data, data + step);
	}
	return (now() - began) / count;
}

int main(int words, char **word)
{
	FILE *file = fopen(words == 4 ? word[3] : "", "rb");
	uint32_t head[4], i, rounds;
	double best = 1e18;
	bool encodes;

	if (!file || fread(head, 4, 4, file) != 4)
		return 2;
	step = head[0];
	parity_bytes = head[1];
	order = head[2];
	count = head[3];
	encodes = !strcmp(word[2], "encode");
	if (strcmp(word[1], "hamming"))
		bch = bch_init(order, atoi(word[1]), 0, false);

	size_t bytes = (size_t)count * (step + parity_bytes);
	uint8_t *read = malloc(bytes), *written = malloc(bytes), *work = malloc(bytes);

	if (fread(read, 1, bytes, file) != bytes || fread(written, 1, bytes, file) != bytes)
		return 2;
	for (rounds = 0; rounds < 5; rounds++) {
		double time = round_of(encodes, work, read, bytes);

		if (time < best)
			best = time;
	}
	for (i = 0; i < count; i++) {
		size_t at = (size_t)i * (step + parity_bytes);

		if (memcmp(work + at, written + at, encodes ? step + parity_bytes : step)) {
			fprintf(stderr, "step %u is wrong\n", i);
			return 1;
		}
	}
	printf("%.1f\n", best);
	return 0;
}
