#include "control/coordinator/store/etcd/election.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

namespace tally::control::etcd {
namespace {

using nlohmann::json;

constexpr Nanos kLook = 150 * kMillisecond;  // between looks at the key
constexpr Nanos kLookTimeout = 2 * kSecond;
constexpr Nanos kKeepAlive = 400 * kMillisecond;  // between requests for a lease of kLeaseSeconds

// A number that no other lease has. This node chooses it, so that it may repeat the request.
std::int64_t make_lease() {
  std::random_device random;
  const std::uint64_t bits = (std::uint64_t{random()} << 32) | random();
  return static_cast<std::int64_t>((bits >> 1) | 1);
}

Error term_ended() {
  return {Status::kUnavailable, "the lease of this node's term has ended in etcd"};
}

}  // namespace

Election::Election(asio::io_context& io, Client& client, ElectionOptions options,
                   ElectionEvents events)
    : io_(io),
      client_(client),
      options_(std::move(options)),
      events_(std::move(events)),
      timer_(io) {
  look_later(0);
}

void Election::call(std::string_view method, json body, Nanos timeout, Client::Then then) {
  client_.call(method, std::move(body), monotonic_now() + timeout,
               [this, then = std::move(then), attempt = attempt_,
                alive = std::weak_ptr(alive_)](Result<json> answer) {
                 if (!alive.expired() && attempt == attempt_) then(std::move(answer));
               });
}

// -- Without a term ----------------------------------------------------------------------------

void Election::look_later(Nanos pause) {
  if (stopped_) return;
  timer_.expires_after(std::chrono::nanoseconds(pause));
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) look();
  });
}

void Election::look() {
  call("kv/range", {{"key", encode_base64(options_.key)}}, kLookTimeout,
       [this](const Result<json>& answer) {
         const auto range = answer ? parse_range(*answer) : Result<RangeAnswer>(answer.error());
         if (!range) {
           events_.no_answer(range.error());
         } else if (range->values.empty()) {
           return campaign();
         } else {
           events_.other(range->values.front().create_revision);
         }
         look_later(kLook);
       });
}

void Election::campaign() {
  lease_ = make_lease();
  const json wish = {{"ID", std::to_string(lease_)}, {"TTL", std::to_string(kLeaseSeconds)}};
  call("lease/grant", wish, kLookTimeout, [this](const Result<json>& answer) {
    const auto lasts = answer ? parse_time_to_live(*answer) : Result<std::int64_t>(answer.error());
    // A repeated request finds the lease that the first one made. So a refusal is no reason to
    // stop: without the lease the key is not created.
    if (lasts || lasts.status() == Status::kRefused) return create_key(lease_);
    events_.no_answer(lasts.error());
    look_later(kLook);
  });
}

// Repeating it is safe: the other branch shows whether this node has created the key already.
void Election::create_key(std::int64_t lease) {
  const json value = {{"name", options_.name}, {"lease", lease}};
  const json transaction = {
      {"compare", json::array({created_at(options_.key, 0)})},
      {"success", json::array({put_operation(options_.key, value.dump(), lease)})},
      {"failure", json::array({get_operation(options_.key)})}};
  call("kv/txn", transaction, kLookTimeout,
       [this, lease](const Result<json>& answer) { created(lease, answer); });
}

void Election::created(std::int64_t lease, const Result<json>& answer) {
  const auto done = answer ? parse_transaction(*answer) : Result<TransactionAnswer>(answer.error());
  if (!done) {
    events_.no_answer(done.error());
    revoke();
    return look_later(kLook);
  }
  Revision term = done->succeeded ? done->revision : 0;
  for (const KeyValue& one : done->values) {
    if (one.lease == lease) term = one.create_revision;
  }
  if (term == 0) {
    revoke();
    return look_later(kLook);
  }
  keep_alive_later();
  events_.won(term);
}

// -- With a term -------------------------------------------------------------------------------

void Election::keep_alive_later() {
  timer_.expires_after(std::chrono::nanoseconds(kKeepAlive));
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) keep_alive();
  });
}

void Election::keep_alive() {
  call("lease/keepalive", {{"ID", std::to_string(lease_)}}, options_.patience,
       [this](const Result<json>& answer) { kept_alive(answer); });
}

void Election::kept_alive(const Result<json>& answer) {
  if (!answer) return lose(answer.error());
  const auto lasts = parse_time_to_live(*answer);
  if (!lasts) return lose(lasts.error());
  if (*lasts == 0) return lose(term_ended());
  keep_alive_later();
}

void Election::lose(const Error& why) {
  revoke();
  look_later(kLook);
  events_.lost(why);
}

void Election::resign() {
  revoke();
  look_later(kLeaseSeconds * kSecond);
}

void Election::stop() {
  stopped_ = true;
  revoke();
  timer_.cancel();
}

// Nothing waits for the answer. A lease that is not revoked ends by itself.
void Election::revoke() {
  ++attempt_;
  if (lease_ == 0) return;
  const json which = {{"ID", std::to_string(lease_)}};
  lease_ = 0;
  client_.call("lease/revoke", which, monotonic_now() + kLookTimeout, [](const auto&) {});
}

}  // namespace tally::control::etcd
