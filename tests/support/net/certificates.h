// Certificates for tests, made by the `openssl` command in a folder of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "net/tls/tls_context.h"

namespace tally::testing {

class CertificateAuthority {
 public:
  // The folder must exist. Several authorities in one folder have different names.
  CertificateAuthority(std::string folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)) {
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
        name_ + " -keyout " + path(name_, ".key") + " -out " + path(name_, ".pem"));
  }

  // Returns the files of a process on `host`, a numeric address.
  net::tls::CertificateFiles sign(const std::string& owner, const std::string& host) const {
    const std::string key = path(owner, ".key");
    const std::string certificate = path(owner, ".pem");
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + owner +
        " -addext subjectAltName=IP:" + host + " -keyout " + key + " -out " + path(owner, ".csr"));
    run("openssl x509 -req -days 2 -copy_extensions copy -CAcreateserial -in " +
        path(owner, ".csr") + " -CA " + path(name_, ".pem") + " -CAkey " + path(name_, ".key") +
        " -out " + certificate);
    return {.certificate = certificate, .private_key = key, .authority = path(name_, ".pem")};
  }

 private:
  std::string path(const std::string& owner, const char* end) const {
    return (std::filesystem::path(folder_) / (owner + end)).string();
  }
  static void run(const std::string& command) {
    EXPECT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command;
  }

  std::string folder_;
  std::string name_;
};

}  // namespace tally::testing
