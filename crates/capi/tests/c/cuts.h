/* Power cuts at every chip operation of a run, and of some recoveries. */
#ifndef CUTS_H
#define CUTS_H

#include "nandlab.h"

/* What is cut. */
struct subject {
    /* Works above the chip, and promises. */
    void (*run)(nandlab_chip *chip);
    /* Says why a chip after a cut is wrong. NULL: the layer mounts, holds what it had promised by
     * the moment of the cut, and goes on. */
    const char *(*judge)(nandlab_chip *chip, uint64_t moment);
    /* How often the glue saw the chip refuse a program. */
    const unsigned *refused;
};

/* Ends the program if a call failed. */
void must(int outcome, const char *what);

/* From now on a thing has this version or a later one, whatever the power does. */
void promise(nandlab_chip *chip, int thing, int version);

/* The newest version of a thing that was promised by a moment; 0 if none was. */
int promised(int thing, uint64_t moment);

/* Lets the subject run on the chip, judges every state that a cut may leave, and prints the counts.
 * Returns the violations. */
unsigned cut_everywhere(nandlab_chip *chip, const struct subject *subject);

#endif
