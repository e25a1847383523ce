#include "net/tls/socket_bio.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "net/crypto/library.h"

namespace tally::net::tls {
namespace {

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(openssl::loaded().BIO_get_data(bio)));
}

void clear_retry(BIO* bio) {
  openssl::loaded().BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
}

void retry_if_busy(BIO* bio, int direction) {
  if (errno == EAGAIN || errno == EINTR)
    openssl::loaded().BIO_set_flags(bio, direction | BIO_FLAGS_SHOULD_RETRY);
}

int write(BIO* bio, const char* bytes, int count) {
  clear_retry(bio);
  const ssize_t sent =
      ::send(socket_of(bio), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) retry_if_busy(bio, BIO_FLAGS_WRITE);
  return static_cast<int>(sent);
}

int read(BIO* bio, char* bytes, int room) {
  clear_retry(bio);
  const ssize_t got = ::recv(socket_of(bio), bytes, static_cast<std::size_t>(room), MSG_DONTWAIT);
  if (got < 0) retry_if_busy(bio, BIO_FLAGS_READ);
  return static_cast<int>(got);
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_method() {
  BIO_METHOD* method = openssl::loaded().BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tally socket");
  if (method == nullptr) return nullptr;
  openssl::loaded().BIO_meth_set_write(method, write);
  openssl::loaded().BIO_meth_set_read(method, read);
  openssl::loaded().BIO_meth_set_ctrl(method, control);
  return method;
}

}  // namespace

BIO* make_socket_bio(int socket) {
  static BIO_METHOD* const kMethod = make_method();
  BIO* bio = kMethod != nullptr ? openssl::loaded().BIO_new(kMethod) : nullptr;
  if (bio == nullptr) return nullptr;
  openssl::loaded().BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(socket)));
  openssl::loaded().BIO_set_init(bio, 1);
  return bio;
}

}  // namespace tally::net::tls
