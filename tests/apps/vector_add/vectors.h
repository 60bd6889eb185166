// Argument of the kernel `vector_add`, shared with its twin: a structure passed by value.

#ifndef VECTORS_H
#define VECTORS_H

struct Vectors {
    const unsigned *a;
    const unsigned *b;
    // Added to each sum; different in each launch.
    unsigned bias;
    unsigned size;
};

#endif
