/* Parameters of the suite's kernels that are larger than a word, as the kernels and their twins see them. */

#pragma once

/* Has gaps between its members, and an end that needs rounding up. */
struct Record {
    char tag;
    double weight;
    short shift;
    unsigned values[5];
    char end;
};

/* The contents of a Record as a kernel saw them. */
struct Seen {
    double weight;
    long long sum;
};

static inline long long sum_of(const struct Record *record) {
    long long sum = record->tag + record->shift * 10LL + record->end * 100LL;
    for (int i = 0; i < 5; i++) sum += record->values[i] * 1000LL * (i + 1);
    return sum;
}
