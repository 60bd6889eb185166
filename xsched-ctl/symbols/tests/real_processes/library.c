/* A small library; its function has another name in each build (-DENTRY=...). */
int ENTRY(int x) { return x + 1; }
int library_data[4] = {1, 2, 3, 4};
int library_zeroed[5000];
const int library_constant[4] = {5, 6, 7, 8};
