// Opens OpenSSL 3 at run time, so that programs and libraries that link this also load on machines
// without it.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace tally::net::openssl {

// The functions that Tally uses, by the library that exports them.
// clang-format off
#define TALLY_LIBCRYPTO_FUNCTIONS(F) \
  F(BIO_clear_flags) F(BIO_get_data) F(BIO_meth_new) \
  F(BIO_meth_set_ctrl) F(BIO_meth_set_read) F(BIO_meth_set_write) F(BIO_new) F(BIO_set_data) \
  F(BIO_set_flags) F(BIO_set_init) F(ERR_clear_error) F(ERR_peek_error) \
  F(ERR_reason_error_string) F(EVP_CIPHER_CTX_ctrl) F(EVP_CIPHER_CTX_free) \
  F(EVP_CIPHER_CTX_new) F(EVP_DecryptFinal_ex) F(EVP_DecryptInit_ex) F(EVP_DecryptUpdate) \
  F(EVP_EncryptFinal_ex) F(EVP_EncryptInit_ex) F(EVP_EncryptUpdate) F(EVP_PBE_scrypt) \
  F(EVP_aes_256_gcm) F(EVP_sha256) F(HMAC) F(X509_VERIFY_PARAM_set1_host) \
  F(X509_VERIFY_PARAM_set1_ip_asc) F(X509_free)
#define TALLY_LIBSSL_FUNCTIONS(F) \
  F(SSL_CIPHER_find) F(SSL_CTX_check_private_key) F(SSL_CTX_clear_options) F(SSL_CTX_ctrl) \
  F(SSL_CTX_free) F(SSL_CTX_load_verify_file) F(SSL_CTX_new) F(SSL_CTX_set_ciphersuites) \
  F(SSL_CTX_set_max_early_data) F(SSL_CTX_set_num_tickets) F(SSL_CTX_set_options) \
  F(SSL_CTX_set_psk_find_session_callback) F(SSL_CTX_set_psk_use_session_callback) \
  F(SSL_CTX_set_session_id_context) F(SSL_CTX_set_verify) F(SSL_CTX_use_PrivateKey_file) F(SSL_CTX_use_certificate_chain_file) \
  F(SSL_SESSION_free) F(SSL_SESSION_new) F(SSL_SESSION_set1_master_key) \
  F(SSL_SESSION_set_cipher) F(SSL_SESSION_set_protocol_version) F(SSL_do_handshake) F(SSL_free) \
  F(SSL_get0_param) F(SSL_get1_peer_certificate) F(SSL_get_error) F(SSL_get_ex_data) \
  F(SSL_get_verify_result) F(SSL_new) F(SSL_read_ex) F(SSL_session_reused) \
  F(SSL_set_accept_state) F(SSL_set_bio) F(SSL_set_connect_state) F(SSL_set_ex_data) \
  F(SSL_shutdown) F(SSL_write_ex) F(TLS_method)
// clang-format on

struct Library {
#define TALLY_MEMBER(name) decltype(&::name) name = nullptr;
  TALLY_LIBCRYPTO_FUNCTIONS(TALLY_MEMBER)
  TALLY_LIBSSL_FUNCTIONS(TALLY_MEMBER)
#undef TALLY_MEMBER

  // Returns the reason of the calling thread's oldest error, and forgets all errors of the thread.
  // OpenSSL judges the result of a later call by errors that are left over, so every user of a
  // function that failed calls this.
  std::string take_error() const;
};

// The system's OpenSSL. It is opened once and never closed. Any thread. Fails with kUnsupported
// when OpenSSL 3 is not installed; the message says what to install.
Result<const Library*> library();
// Precondition: library() is ok.
inline const Library& loaded() {
  return *library().value();
}

}  // namespace tally::net::openssl
