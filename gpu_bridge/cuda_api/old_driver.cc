// For driver_test.cc: a libcuda.so.1 as of CUDA 11, which has no cuGetProcAddress_v2.
extern "C" __attribute__((visibility("default"))) int tally_test_old_driver() {
  return 11080;
}
