// For base/system/shared_library_test.cc: a library with one function.
extern "C" __attribute__((visibility("default"))) int tally_test_number() {
  return 7;
}
