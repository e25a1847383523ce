// Messages of etcd 3.4's JSON gateway. Keys and values are base64 and numbers of 64 bits are texts.
// The gateway omits fields that have their default value: no "succeeded" means that a transaction
// took its other branch, no "TTL" that a lease has ended. Answers come from the network, so each is
// parsed with bounds.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tally::control::etcd {

using Revision = std::uint64_t;  // of etcd: rises with each write

std::string encode_base64(std::string_view bytes);

// -- Requests ----------------------------------------------------------------------------------

// A condition of a transaction: the key has been created by that revision; 0: there is no such key.
// etcd compares with 0 when the field does not belong to its target, so only these functions write
// conditions.
nlohmann::json created_at(std::string_view key, Revision revision);
// The same for a key that has that value.
nlohmann::json has_value(std::string_view key, std::string_view value);

// Operations of a transaction. lease 0: none.
nlohmann::json put_operation(std::string_view key, std::string_view value, std::int64_t lease = 0);
nlohmann::json delete_operation(std::string_view key);
nlohmann::json get_operation(std::string_view key);
// A request of /v3/kv/range for the keys from `first` on that begin with `prefix`.
nlohmann::json page_request(std::string_view first, std::string_view prefix, std::uint64_t limit);

// -- Answers -----------------------------------------------------------------------------------

struct KeyValue {
  std::string key;
  std::string value;
  Revision create_revision = 0;
  std::int64_t lease = 0;
};

struct RangeAnswer {
  std::vector<KeyValue> values;
  bool more = false;
};

struct TransactionAnswer {
  Revision revision = 0;  // of the store after it
  bool succeeded = false;
  std::vector<KeyValue> values;  // of all its get operations
};

Result<RangeAnswer> parse_range(const nlohmann::json& answer);
Result<TransactionAnswer> parse_transaction(const nlohmann::json& answer);
// The seconds for which the lease lasts; 0: it has ended.
Result<std::int64_t> parse_time_to_live(const nlohmann::json& answer);

// An answer with another code than 200.
struct Failure {
  std::uint64_t code = 0;  // of gRPC
  std::string message;

  // Another member of etcd, or the same one later, may still do the request: the member has no
  // leader, changes it, or is overloaded.
  bool is_temporary() const;
  // The token has ended, or belongs to a member that was started again.
  bool needs_token() const;
};
// Takes any text.
Failure parse_failure(long http_code, std::string_view body);

}  // namespace tally::control::etcd
