#include "control/plan/json/network_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "control/plan/json/document.h"
#include "control/plan/json/machine_nics.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/model/validate.h"

namespace tally::plan {
namespace {

using Ends = std::pair<VertexId, VertexId>;  // from, to

class NetworkReader {
 public:
  NetworkReader(const Value& file, const ReadPcie& read_pcie, Mistake& mistake)
      : file_(file), read_pcie_(read_pcie), mistake_(mistake) {}

  Network read() {
    file_.expect_format(kNetworkFormat);
    file_.expect_object({"fmt", "machines", "racks", "switches", "links"});
    if (mistake_.any()) return {};
    add_machines();
    add_switches();
    each(file_, "racks", kMaxVertices,
         [&](const Value& entry, VertexId i) { join_up(entry, machines_ + i); });
    each(file_, "switches", kMaxVertices,
         [&](const Value& entry, VertexId i) { join_up(entry, machines_ + racks_ + i); });
    each(file_, "machines", kMaxVertices,
         [&](const Value& entry, VertexId i) { join_machine(entry, i); });
    each(file_, "links", kMaxLinks, [&](const Value& entry, VertexId) { join(entry); });
    if (!mistake_.any()) join_others();
    if (!mistake_.any()) add_links();
    if (!mistake_.any()) check_reach();
    return std::move(network_);
  }

 private:
  static constexpr std::size_t kLongestText = 256;  // bytes

  template <typename Action>
  void each(const Value& object, std::string_view key, std::size_t most, Action action) {
    if (!object.has(key)) return;
    const Value list = object.member(key);
    const auto size = static_cast<VertexId>(list.size(most));
    for (VertexId i = 0; i < size && !mistake_.any(); ++i) action(list.entry(i), i);
  }

  // -- Vertices: first, because racks, NICs and links refer to them by name ---------------------

  void add(const Value& entry, Vertex vertex) {
    const Value name = entry.member("name");
    vertex.name = name.text(kLongestText);
    const auto id = static_cast<VertexId>(network_.vertices.size());
    if (!ids_.try_emplace(vertex.name, id).second || vertex.name.empty()) {
      name.refuse("a name that no other machine, rack or switch has, and not empty");
    }
    network_.vertices.push_back(std::move(vertex));
  }

  void add_machines() {
    const Value list = file_.member("machines");
    each(file_, "machines", kMaxVertices, [&](const Value& entry, VertexId) {
      entry.expect_object(
          {"name", "role", "address", "rack", "nic", "in", "out", "sum", "nics", "hwloc"});
      add(entry, {.role = static_cast<Role>(entry.member("role").word({"worker", "helper"}))});
    });
    machines_ = static_cast<VertexId>(network_.vertices.size());
    if (machines_ == 0) list.refuse("a list of at least one machine");
  }

  void add_switches() {
    const auto add_switch = [&](const Value& entry, Vertex vertex) {
      entry.expect_object({"name", "to", "speed", "up", "down"});
      add(entry, std::move(vertex));
    };
    each(file_, "racks", kMaxVertices - machines_, [&](const Value& entry, VertexId i) {
      add_switch(entry, {.role = Role::kSwitch, .rack = i});
      racks_ = i + 1;
    });
    each(file_, "switches", kMaxVertices - network_.vertices.size(),
         [&](const Value& entry, VertexId) { add_switch(entry, {.role = Role::kSwitch}); });
  }

  // Adds the switch "core", which need not be listed, where something is joined to it.
  void add_core() {
    const auto id = static_cast<VertexId>(network_.vertices.size());
    if (!ids_.try_emplace(std::string(kCoreName), id).second) return;
    network_.vertices.push_back({.role = Role::kSwitch, .name = std::string(kCoreName)});
    if (id < kMaxVertices) return;
    mistake_.note(
        fmt::format("racks: with the switch \"{}\" there are {} machines, racks and switches; must "
                    "be at most {}",
                    kCoreName, id + 1, kMaxVertices));
  }

  // -- Values -----------------------------------------------------------------------------------

  static bool has_speed(const Value& entry) {
    return entry.has("speed") || entry.has("up") || entry.has("down");
  }

  // The speed of a machine one way, or 0 where its links give it.
  static double speed_of_machine(const Value& entry, std::string_view way) {
    if (entry.has(way)) return read_speed(entry, way);
    return entry.has("nic") ? read_speed(entry, "nic") : 0;
  }

  // Returns the vertex of this name, if its id is in [first, end). `what`: what such vertices are.
  VertexId named(const Value& value, VertexId first, VertexId end, std::string_view what) const {
    const auto found = ids_.find(value.text(kLongestText));
    if (found != ids_.end() && found->second >= first && found->second < end) return found->second;
    value.refuse(fmt::format("the name of {} of this file", what));
    return first;
  }

  // Like named(), up to the last vertex, which may be "core".
  VertexId named_or_core(const Value& value, VertexId first, std::string_view what) {
    if (value.text(kLongestText) == kCoreName) add_core();
    return named(value, first, static_cast<VertexId>(network_.vertices.size()), what);
  }

  VertexId switch_named(const Value& value) {
    return named_or_core(value, machines_, "a switch or rack");
  }

  // -- Links ------------------------------------------------------------------------------------

  // Adds a link of one direction. There must be none between these vertices, because only the NICs
  // of one machine add up (join_machine).
  void join(const Value& entry, VertexId from, VertexId to, double speed) {
    if (links_.try_emplace({from, to}, speed).second) return;
    entry.refuse("a link whose ends nothing else joins in this direction; add up their speeds");
  }

  void join_up(const Value& entry, VertexId id) {
    if (!has_speed(entry) && !entry.has("to")) return;  // "links" may have its links
    const BothWays uplink = read_speeds(entry, "up", "down");
    const VertexId to = entry.has("to") ? switch_named(entry.member("to")) : core(entry, "to");
    if (id == to) {
      return entry.has("to") ? entry.member("to").refuse("the name of another rack or switch")
                             : entry.member("name").refuse(kNotCore);
    }
    if (links_.count({id, to}) > 0) {
      return entry.refuse(fmt::format(
          "given no link to \"{}\", which has one to it already; leave out \"to\" and the speeds",
          network_.vertices[to].name));
    }
    join(entry, id, to, uplink.there);
    join(entry, to, id, uplink.back);
  }

  // `key`: names another switch in its place.
  VertexId core(const Value& entry, std::string_view key) {
    add_core();
    const VertexId id = ids_.find(std::string(kCoreName))->second;
    if (id < machines_) {
      entry.refuse(fmt::format("given \"{}\", because \"core\" is the name of a machine", key));
    }
    return id;
  }

  void join_machine(const Value& entry, VertexId id) {
    Vertex& machine = network_.vertices[id];
    machine.in = speed_of_machine(entry, "in");
    machine.out = speed_of_machine(entry, "out");
    if (entry.has("sum")) machine.sum = read_speed(entry, "sum");
    if (entry.has("address")) entry.member("address").text(kLongestText);  // for people alone
    std::optional<VertexId> rack;
    if (entry.has("rack")) {
      rack = named(entry.member("rack"), machines_, machines_ + racks_, "a rack");
      machine.rack = *rack - machines_;
    }
    if (entry.has("nics") || entry.has("hwloc")) {
      join_nics(entry, id, rack);
    } else if (rack) {
      if (machine.in == 0 || machine.out == 0) {
        return entry.refuse(
            "given its speed: \"nic\", or \"in\" and \"out\", in bytes per second, or \"nics\"");
      }
      links_[{id, *rack}] = machine.out;
      links_[{*rack, id}] = machine.in;
    }
  }

  void join_nics(const Value& entry, VertexId id, std::optional<VertexId> rack) {
    if (entry.has("nic")) {
      entry.refuse(
          fmt::format("given either \"nic\" or \"{}\"", entry.has("hwloc") ? "hwloc" : "nics"));
    }
    const MachineNics nics = read_nics(
        entry, rack, [this](const Value& name) { return switch_named(name); }, read_pcie_);
    for (const auto& [to, speed] : nics.links) {
      links_[{id, to}] = speed.there;
      links_[{to, id}] = speed.back;
    }
    Vertex& machine = network_.vertices[id];
    if (!nics.together) return;
    if (machine.out == 0) machine.out = nics.together->there;
    if (machine.in == 0) machine.in = nics.together->back;
  }

  void join(const Value& entry) {
    const auto end = [&](const Value& value) {
      return named_or_core(value, 0, "a machine, rack or switch");
    };
    if (!entry.has("between")) {
      entry.expect_object({"from", "to", "speed"});
      const VertexId from = end(entry.member("from")), to = end(entry.member("to"));
      if (from == to) return entry.member("to").refuse("another name than \"from\"");
      return join(entry, from, to, read_speed(entry, "speed"));
    }
    entry.expect_object({"between", "speed", "forward", "back"});
    const Value between = entry.member("between");
    if (between.size(2) != 2)
      return between.refuse("a list of the names of two machines, racks or switches");
    const VertexId first = end(between.entry(0)), second = end(between.entry(1));
    if (first == second) return between.refuse("a list of two different names");
    const BothWays speed = read_speeds(entry, "forward", "back");
    join(entry, first, second, speed.there);
    join(entry, second, first, speed.back);
  }

  // Joins machines that nothing else joins to "core", like those of a file of machines.
  void join_others() {
    std::vector<bool> is_joined(network_.vertices.size());
    for (const auto& [ends, capacity] : links_)
      is_joined[ends.first] = is_joined[ends.second] = true;
    each(file_, "machines", kMaxVertices, [&](const Value& entry, VertexId id) {
      const double in = network_.vertices[id].in, out = network_.vertices[id].out;
      if (is_joined[id] || in == 0 || out == 0 || entry.has("nics")) return;
      const VertexId to = core(entry, "rack");
      links_[{id, to}] = out;
      links_[{to, id}] = in;
    });
  }

  // -- The whole --------------------------------------------------------------------------------

  // Gives machines the speeds that follow from their links, and links those that follow from their
  // machines.
  void add_links() {
    if (links_.size() > kMaxLinks) {
      return mistake_.note(fmt::format(
          "links: {} links, those of NICs and racks included; must be at most {} (one direction is "
          "one link)",
          links_.size(), kMaxLinks));
    }
    std::vector<double> in(network_.vertices.size()), out(network_.vertices.size());
    for (const auto& [ends, capacity] : links_) {
      out[ends.first] += capacity;
      in[ends.second] += capacity;
    }
    each(file_, "machines", kMaxVertices, [&](const Value& entry, VertexId id) {
      Vertex& machine = network_.vertices[id];
      if (in[id] == 0 || out[id] == 0) {
        return entry.member("name").refuse(
            "the name of a machine with a link each way; give it \"nic\", \"nics\" or \"links\"");
      }
      if (machine.in == 0) machine.in = in[id];
      if (machine.out == 0) machine.out = out[id];
      if (std::max(machine.in, machine.out) <= kMaxSpeed) return;
      entry.refuse("a machine whose links have at most 1e15 bytes per second together");
    });
    for (const auto& [ends, capacity] : links_) {
      const auto& [from, to] = ends;
      double speed = capacity;
      if (from < machines_) speed = std::min(speed, network_.vertices[from].out);
      if (to < machines_) speed = std::min(speed, network_.vertices[to].in);
      network_.links.push_back({from, to, speed});
    }
  }

  void check_reach() {
    const std::vector<bool> to = reached(network_, 0, true), from = reached(network_, 0, false);
    each(file_, "machines", kMaxVertices, [&](const Value& entry, VertexId id) {
      if (to[id] && from[id]) return;
      entry.member("name").refuse(
          fmt::format("the name of a machine {} the first machine, \"{}\"; {}, or add \"links\"",
                      to[id] ? "from which links lead to" : "to which links lead from",
                      network_.name_of(0), kJoinSwitches));
    });
  }

  const Value& file_;
  const ReadPcie& read_pcie_;
  Mistake& mistake_;
  Network network_;
  std::map<std::string, VertexId> ids_;
  std::map<Ends, double> links_;  // bytes per second
  VertexId machines_ = 0;
  VertexId racks_ = 0;
};

class NetworkWriter {
 public:
  explicit NetworkWriter(const Network& network)
      : network_(network), machines_(static_cast<VertexId>(network.machines())) {
    std::set<std::string> taken;
    for (VertexId id = 0; id < network.vertices.size(); ++id) {
      std::string name = network.name_of(id);
      while (!taken.insert(name).second) name += "'";
      names_.push_back(std::move(name));
    }
    for (const Link& link : network.links) links_[{link.from, link.to}] = link.capacity;
    for (VertexId id = machines_; id < network.vertices.size(); ++id) {
      if (network.vertices[id].rack) rack_switches_.try_emplace(*network.vertices[id].rack, id);
    }
  }

  std::string write() {
    std::vector<Json> machines, racks, switches;
    for (VertexId id = 0; id < network_.vertices.size(); ++id) {
      if (id < machines_) {
        machines.push_back(write_machine(id));
      } else {
        (is_rack(id) ? racks : switches).push_back(Json::object({{"name", names_[id]}}));
      }
    }
    return fmt::format("{{\"fmt\":\"{}\",\n{},\n{},\n{},\n{}}}\n", kNetworkFormat,
                       list("machines", machines), list("racks", racks), list("switches", switches),
                       list("links", write_links()));
  }

 private:
  using Json = nlohmann::ordered_json;

  static std::string list(std::string_view key, const std::vector<Json>& entries) {
    std::string text;
    for (const Json& entry : entries) {
      text += text.empty() ? "\n  " : ",\n  ";
      text += entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    return fmt::format(" \"{}\":[{}]", key, text);
  }

  bool is_rack(VertexId id) const {
    const auto& rack = network_.vertices[id].rack;
    return rack && rack_switches_.at(*rack) == id;
  }

  static void write_speeds(Json& entry, std::string_view there, double speed_there,
                           std::string_view back, double speed_back) {
    if (speed_there == speed_back) {
      entry["speed"] = speed_there;
      return;
    }
    entry[std::string(there)] = speed_there;
    entry[std::string(back)] = speed_back;
  }

  // Its links with switches, as NICs; write_links() has its other links.
  Json write_machine(VertexId id) {
    const Vertex& machine = network_.vertices[id];
    Json entry = {{"name", names_[id]}, {"role", role_name(machine.role)}};
    const auto rack = machine.rack ? rack_switches_.find(*machine.rack) : rack_switches_.end();
    const bool has_rack = rack != rack_switches_.end();
    if (has_rack) entry["rack"] = names_[rack->second];
    entry["in"] = machine.in;
    entry["out"] = machine.out;
    if (machine.sum) entry["sum"] = *machine.sum;
    Json nics = Json::array();
    for (auto out = links_.lower_bound({id, machines_});
         out != links_.end() && out->first.first == id;) {
      const VertexId to = out->first.second;
      const auto in = links_.find({to, id});
      if (in == links_.end() || nics.size() == kMaxNics) {
        ++out;
        continue;
      }
      Json nic = Json::object({{"to", names_[to]}});
      write_speeds(nic, "out", out->second, "in", in->second);
      nics.push_back(std::move(nic));
      links_.erase(in);
      out = links_.erase(out);
    }
    // Without "nics" the reader would join the machine to the switch of its rack.
    if (has_rack || !nics.empty()) entry["nics"] = std::move(nics);
    return entry;
  }

  std::vector<Json> write_links() const {
    std::vector<Json> entries;
    for (const auto& [ends, capacity] : links_) {
      const auto& [from, to] = ends;
      const auto back = links_.find({to, from});
      if (back == links_.end()) {
        entries.push_back(
            Json::object({{"from", names_[from]}, {"to", names_[to]}, {"speed", capacity}}));
      } else if (from < to) {
        Json entry;
        entry["between"] = {names_[from], names_[to]};
        write_speeds(entry, "forward", capacity, "back", back->second);
        entries.push_back(std::move(entry));
      }
    }
    return entries;
  }

  const Network& network_;
  VertexId machines_;
  std::vector<std::string> names_;  // by vertex, each another
  std::map<Ends, double> links_;    // those that are not written yet
  std::map<std::uint32_t, VertexId> rack_switches_;
};

}  // namespace

Result<Network> read_network(std::string_view text, const ReadPcie& read_pcie) {
  const auto document = parse_document(text, kMaxNetworkBytes);
  if (!document) return document.error();
  Mistake mistake;
  const Value file(*document, mistake);
  Network network = NetworkReader(file, read_pcie, mistake).read();
  if (mistake.any()) return invalid(mistake.text());
  return network;
}

std::string write_network(const Network& network) {
  return NetworkWriter(network).write();
}

}  // namespace tally::plan
