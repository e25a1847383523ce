#include "control/node/shards/roce_json.h"

namespace tally::control {

nlohmann::json roce_json(const transport::roce::RoceTransport& transport) {
  const transport::roce::Counters pairs = transport.counters();
  const transport::roce::PortCounters port = transport.port_counters();
  std::uint64_t unreadable = 0;
  for (const std::uint64_t count : port.unreadable) unreadable += count;
  return {{"received", pairs.received},
          {"sent", pairs.sent},
          {"again", pairs.again},
          {"reads_repaired", pairs.reads_repaired},
          {"out_of_order", pairs.out_of_order},
          {"duplicates", pairs.duplicates},
          {"strangers", pairs.strangers},
          {"marked", pairs.marked},
          {"notices_sent", pairs.notices_sent},
          {"notices_taken", pairs.notices_taken},
          {"wrong_icrc", port.wrong_icrc},
          {"unreadable", unreadable},
          {"other_address", port.other_address},
          {"no_buffer", port.no_buffer},
          {"wrong_shard", port.wrong_queue},
          {"wrong_shard_dropped", port.not_passed_on},
          {"missed", port.missed},
          {"copied_bytes", port.copied_bytes}};
}

}  // namespace tally::control
