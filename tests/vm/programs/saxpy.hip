// A kernel for the module that `queues` loads.
extern "C" __attribute__((global)) void saxpy(float a, const float *x, float *y, int n) {
    int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
    if (i < n) y[i] = a * x[i] + y[i];
}
