// Runs the chain between two breakpoints.
long first(long);

int main(void) {
    __asm__ volatile("int3");
    volatile long result = first(1);
    __asm__ volatile("int3");
    return result == 0;
}
