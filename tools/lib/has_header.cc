// Compiles where HEADER, written "<name>", can be included.
#if !__has_include(HEADER)
#error "this compiler finds no such header"
#endif
