// How OpenSSL reads from and writes to a socket. Its own way raises SIGPIPE in the process that
// uses it.
#pragma once

#include <openssl/types.h>

namespace tally::net::tls {

// Returns a BIO of this socket, which it borrows. Null when there is no memory. Precondition:
// openssl::library() is ok.
BIO* make_socket_bio(int socket);

}  // namespace tally::net::tls
