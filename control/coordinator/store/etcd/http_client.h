// Sends HTTP requests, many at a time, on a thread of its own (libcurl's multi interface). The
// control thread sends requests, and gets each answer as a call. So a server that does not answer
// delays nothing but its own answers.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace tally::control::etcd {

struct HttpRequest {
  std::string url;
  std::string body;           // the request is a POST of JSON
  std::string authorization;  // header "Authorization"; empty: none
  Nanos timeout = kSecond;    // for connecting and answering together
};

struct HttpAnswer {
  long code = 0;  // of HTTP, such as 200
  std::string body;
};

class HttpClient {
 public:
  // kUnavailable: no answer. The message says why.
  using Then = std::function<void(Result<HttpAnswer>)>;

  // io is the control thread's loop; borrowed. authority: PEM file with the certificates that
  // https:// accepts; empty: those of the system. An error: libcurl is missing.
  static Result<std::unique_ptr<HttpClient>> start(asio::io_context& io, std::string authority);
  // Drops the requests that have no answer yet, without their calls.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Calls `then` once on the control thread, after `timeout` at the latest. Control thread only.
  void post(HttpRequest request, Then then);

 private:
  class Worker;
  explicit HttpClient(std::unique_ptr<Worker> worker);

  std::unique_ptr<Worker> worker_;
};

}  // namespace tally::control::etcd
