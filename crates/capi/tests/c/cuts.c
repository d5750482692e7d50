/* The loop of cuts. A fork from before the run and the log of the run give every state. */
#include "cuts.h"
#include <stdio.h>
#include <stdlib.h>

/* States within an operation; within one of a recovery. */
#define WORDS 6
#define WORDS_AGAIN 2
/* One state of so many is cut again in its recovery. */
#define RECOVERIES 8
#define PROMISES_MAX 500

struct promise {
    uint64_t time;
    int thing, version;
};

static struct promise promises[PROMISES_MAX];
static int made;
static const struct subject *cut_subject;
static unsigned states, second_cuts, violations;

void must(int outcome, const char *what) {
    if (outcome < 0) {
        printf("%s: %d (%s)\n", what, outcome, nandlab_last_error());
        exit(2);
    }
}

void promise(nandlab_chip *chip, int thing, int version) {
    must(made < PROMISES_MAX ? 0 : -1, "another promise");
    struct promise *made_now = &promises[made++];
    made_now->thing = thing;
    made_now->version = version;
    must(-(int)nandlab_now(chip, &made_now->time), "now");
}

int promised(int thing, uint64_t moment) {
    int version = 0;
    for (const struct promise *p = promises; p < promises + made; p++)
        if (p->thing == thing && p->time <= moment && p->version > version)
            version = p->version;
    return version;
}

static void look_at_all(nandlab_chip *before, nandlab_log *log, unsigned words, uint64_t *first);

/* Judges a state. `first` is the moment of the first cut, if this is the second. */
static void look(nandlab_chip *before, nandlab_log *log, nandlab_cut cut, uint64_t *first) {
    nandlab_chip *chip, *recovering;
    nandlab_log *recovery;
    uint64_t moment;
    nandlab_status status = nandlab_log_cut(before, log, &cut, &chip, &moment);
    if (status == NANDLAB_STATUS_NO_MOMENT)
        return;
    must(-(int)status, "cut");
    states++;
    second_cuts += first != NULL;
    bool again = !first && states % RECOVERIES == 0;
    if (again) {
        must(-(int)nandlab_chip_fork(chip, &recovering), "fork");
        must(-(int)nandlab_log_start(chip), "log");
    }
    const char *why = cut_subject->judge(chip, first ? *first : moment);
    if (why && violations++ < 3)
        printf("%s %zu, phase %u, word %u: %s\n", first ? "then operation" : "operation",
               cut.operation, cut.phase, cut.word, why);
    if (again) {
        must(-(int)nandlab_log_take(chip, &recovery), "take");
        look_at_all(recovering, recovery, WORDS_AGAIN, &moment);
        nandlab_log_free(recovery);
        nandlab_chip_free(recovering);
    }
    nandlab_chip_free(chip);
}

/* Cuts the power before, within and after each operation of a log. */
static void look_at_all(nandlab_chip *before, nandlab_log *log, unsigned words, uint64_t *first) {
    size_t operations;
    must(-(int)nandlab_log_length(log, &operations), "length");
    for (size_t at = 0; at < operations; at++) {
        look(before, log, (nandlab_cut){at, NANDLAB_CUT_BEFORE, 0, 1}, first);
        for (uint32_t word = 0; word < words; word++)
            look(before, log, (nandlab_cut){at, NANDLAB_CUT_TORN, word, 1}, first);
        look(before, log, (nandlab_cut){at, NANDLAB_CUT_AFTER, 0, 1}, first);
    }
}

unsigned cut_everywhere(nandlab_chip *chip, const struct subject *subject) {
    nandlab_chip *before;
    nandlab_log *log;
    size_t operations;
    cut_subject = subject;
    must(-(int)nandlab_sync(chip), "sync");
    must(-(int)nandlab_chip_fork(chip, &before), "fork");
    must(-(int)nandlab_log_start(chip), "log");
    subject->run(chip);
    must(-(int)nandlab_log_take(chip, &log), "take");
    must(-(int)nandlab_log_length(log, &operations), "length");
    look_at_all(before, log, WORDS, NULL);
    printf("operations %zu\nstates %u\nof them after a second cut %u\nrefused programs %u\n"
           "violations %u\n", operations, states, second_cuts, *subject->refused, violations);
    nandlab_log_free(log);
    nandlab_chip_free(before);
    return violations;
}
