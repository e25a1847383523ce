#include "control/coordinator/store/etcd/http_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <list>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/system/blocked_signals.h"
#include "control/coordinator/store/etcd/curl_library.h"

namespace tally::control::etcd {
namespace {

// Of an answer. A page of the store's values is smaller (etcd_store.cc).
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr int kPollMs = 1000;  // the thread is woken for requests, so this only bounds a lost wake

struct Close {
  const CurlLibrary* library;
  void operator()(CURL* easy) const { library->curl_easy_cleanup(easy); }
  void operator()(curl_slist* list) const { library->curl_slist_free_all(list); }
};

// A request in progress.
struct Transfer {
  HttpRequest request;
  HttpClient::Then then;
  std::unique_ptr<curl_slist, Close> headers;
  std::unique_ptr<CURL, Close> easy;
  HttpAnswer answer;
};

std::size_t receive(const char* bytes, std::size_t size, std::size_t count, void* transfer) {
  std::string& body = static_cast<Transfer*>(transfer)->answer.body;
  if (body.size() + size * count > kMostBytes) return 0;  // ends the transfer
  body.append(bytes, size * count);
  return size * count;
}

}  // namespace

class HttpClient::Worker {
 public:
  Worker(const CurlLibrary& curl, asio::io_context& io, std::string authority)
      : curl_(curl), io_(io), authority_(std::move(authority)), multi_(curl.curl_multi_init()) {
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  }
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    curl_.curl_multi_wakeup(multi_);
    thread_.join();
    for (const Transfer& one : active_) curl_.curl_multi_remove_handle(multi_, one.easy.get());
    active_.clear();
    curl_.curl_multi_cleanup(multi_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(HttpRequest request, Then then) {
    {
      const std::lock_guard lock(mutex_);
      Transfer& transfer = waiting_.emplace_back();
      transfer.request = std::move(request);
      transfer.then = std::move(then);
    }
    curl_.curl_multi_wakeup(multi_);
  }

 private:
  void run() {
    for (;;) {
      std::list<Transfer> fresh;
      {
        const std::lock_guard lock(mutex_);
        if (over_) return;
        fresh.swap(waiting_);
      }
      while (!fresh.empty()) {
        active_.splice(active_.end(), fresh, fresh.begin());
        begin(std::prev(active_.end()));
      }
      int running = 0;
      curl_.curl_multi_perform(multi_, &running);
      int left = 0;
      while (const CURLMsg* message = curl_.curl_multi_info_read(multi_, &left)) {
        if (message->msg == CURLMSG_DONE) finish(message->easy_handle, message->data.result);
      }
      curl_.curl_multi_poll(multi_, nullptr, 0, kPollMs, nullptr);
    }
  }

  void begin(std::list<Transfer>::iterator transfer) {
    transfer->easy = {curl_.curl_easy_init(), Close{&curl_}};
    if (transfer->easy == nullptr) {
      return done(transfer, Error{Status::kUnavailable, "no memory for an HTTP request"});
    }
    curl_slist* headers = curl_.curl_slist_append(nullptr, "Content-Type: application/json");
    headers = curl_.curl_slist_append(headers, "Expect:");  // no round trip before a large body
    if (const std::string& shown = transfer->request.authorization; !shown.empty()) {
      headers = curl_.curl_slist_append(headers, ("Authorization: " + shown).c_str());
    }
    transfer->headers = {headers, Close{&curl_}};
    const HttpRequest& request = transfer->request;
    const auto set = [&, easy = transfer->easy.get()](CURLoption option, auto value) {
      curl_.curl_easy_setopt(easy, option, value);
    };
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max(request.timeout / kMillisecond, Nanos{1})));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);  // no wait for a name server that does not answer
    set(CURLOPT_PROXY, "");       // the environment of tallyd does not choose who sees the store
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    if (!authority_.empty()) set(CURLOPT_CAINFO, authority_.c_str());
    set(CURLOPT_WRITEFUNCTION, &receive);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&*transfer));
    curl_.curl_multi_add_handle(multi_, transfer->easy.get());
  }

  void finish(CURL* easy, CURLcode code) {
    const auto found = std::find_if(active_.begin(), active_.end(),
                                    [&](const Transfer& one) { return one.easy.get() == easy; });
    if (found == active_.end()) return;
    curl_.curl_multi_remove_handle(multi_, easy);
    if (code != CURLE_OK) {
      const char* const remedy =
          code == CURLE_PEER_FAILED_VERIFICATION
              ? "; cluster.store_authority must be the authority that signed etcd's certificate"
              : "";
      return done(found,
                  Error{Status::kUnavailable, fmt::format("{}: {}{}", found->request.url,
                                                          curl_.curl_easy_strerror(code), remedy)});
    }
    curl_.curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &found->answer.code);
    done(found, std::move(found->answer));
  }

  // Hands the result to the control thread, unless the client is gone by then.
  void done(std::list<Transfer>::iterator transfer, Result<HttpAnswer> result) {
    asio::post(io_, [alive = std::weak_ptr(alive_), then = std::move(transfer->then),
                     result = std::move(result)]() mutable {
      if (!alive.expired()) then(std::move(result));
    });
    active_.erase(transfer);
  }

  const CurlLibrary& curl_;
  asio::io_context& io_;
  const std::string authority_;
  CURLM* const multi_;
  const std::shared_ptr<int> alive_ = std::make_shared<int>();  // ends on the control thread
  std::list<Transfer> active_;  // of the thread; each has its place in memory until it ends

  std::mutex mutex_;  // protects the members below
  std::list<Transfer> waiting_;
  bool over_ = false;
  std::thread thread_;
};

HttpClient::HttpClient(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::start(asio::io_context& io, std::string authority) {
  const auto curl = curl_library();
  if (!curl) return curl.error();
  return std::unique_ptr<HttpClient>(
      new HttpClient(std::make_unique<Worker>(**curl, io, std::move(authority))));
}

void HttpClient::post(HttpRequest request, Then then) {
  worker_->post(std::move(request), std::move(then));
}

}  // namespace tally::control::etcd
