// A collective: the kernel of each rank waits on the device for those of the others.

#include "callers.h"

extern "C" {

__global__ void callers_meet(volatile unsigned *there, unsigned rank, unsigned ranks) {
    there[rank] = 1;
    for (unsigned other = 0; other < ranks; other++)
        while (!there[other]) {
        }
}

int ncclAllReduce(volatile unsigned *there, unsigned rank, unsigned ranks, hipStream_t stream) {
    callers_meet<<<1, 1, 0, stream>>>(there, rank, ranks);
    return hipGetLastError();
}
}
