/* Stands in for the library of the GPU transport layer of Cray MPICH. */
int mpix_gtl_pointer_type(void);

int mpix_gtl_pointer_type(void) { return 0; }
