// Functions that ROCm 5.2 does not have. Programs of its repertoire do not call them.

#include <stdio.h>
#include <stdlib.h>

#define MISSING(name)                                                                                                  \
    void name(void) {                                                                                                  \
        fputs("ROCm 5.2 has no " #name "\n", stderr);                                                                  \
        abort();                                                                                                       \
    }

MISSING(hipEventRecord_spt)
MISSING(hipGraphLaunch_spt)
MISSING(hipGraphUpload)
MISSING(hipLaunchHostFunc)
MISSING(hipLaunchHostFunc_spt)
MISSING(hipMemcpy2DAsync_spt)
MISSING(hipMemcpy2DFromArrayAsync_spt)
MISSING(hipMemcpy2DToArrayAsync_spt)
MISSING(hipMemcpy3DAsync_spt)
MISSING(hipMemcpyFromSymbolAsync_spt)
MISSING(hipMemcpyToSymbolAsync_spt)
MISSING(hipMemset2DAsync_spt)
MISSING(hipMemset3DAsync_spt)
MISSING(hipMemsetAsync_spt)
MISSING(hipModuleLaunchCooperativeKernel)
MISSING(hipStreamAddCallback_spt)
MISSING(hipStreamBeginCapture_spt)
MISSING(hipStreamEndCapture_spt)
