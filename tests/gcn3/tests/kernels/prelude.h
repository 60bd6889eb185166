// What the kernels need of OpenCL's headers, which take long to read.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define GROUP __builtin_amdgcn_workgroup_id_x()
#define LOCAL __builtin_amdgcn_workitem_id_x()
#define SIZE __builtin_amdgcn_workgroup_size_x()
#define GLOBAL (GROUP * SIZE + LOCAL)

static inline void sync(void) {
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
}
