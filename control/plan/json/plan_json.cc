#include "control/plan/json/plan_json.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "control/plan/json/document.h"
#include "control/plan/json/machines_json.h"
#include "control/plan/json/network_json.h"
#include "control/plan/json/sections_json.h"

namespace tally::plan {
namespace {

using nlohmann::json;

// Every JSON library keeps integers up to this exactly.
constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;
// What a plan is made for. The second one means SizeClass::rs_ag.
constexpr std::array<std::string_view, 2> kObjectives = {"allreduce", "rs-ag"};
constexpr auto kLastId = static_cast<std::int64_t>(kMaxVertices) - 1;

class PlanReader {
 public:
  Plan read(const Value& file) {
    Plan plan;
    file.expect_format(kPlanFormat, {{kNetworkFormat, kMakeAPlan}, {kMachinesFormat, kMakeAPlan}});
    file.expect_object(
        {"fmt", "epoch", "method", "objective", "nodes", "links", "domains", "pipeline", "async"});
    plan.epoch = static_cast<std::uint64_t>(file.member("epoch").integer(0, kMaxInteger));
    plan.method = file.member("method").text(kLongestName);
    rs_ag_ = file.member("objective").word({kObjectives[0], kObjectives[1]}) == 1;
    for_each(file.member("nodes"), kMaxVertices, [&](const Value& entry, std::size_t index) {
      plan.network.vertices.push_back(vertex(entry, index));
    });
    for_each(file.member("links"), kMaxLinks,
             [&](const Value& entry, std::size_t) { plan.network.links.push_back(link(entry)); });
    for_each(file.member("domains"), kMaxDomains,
             [&](const Value& entry, std::size_t) { plan.domains.push_back(domain(entry)); });
    if (file.has("pipeline")) plan.pipeline = read_pipeline_section(file.member("pipeline"));
    if (file.has("async")) plan.async = read_async_section(file.member("async"));
    return plan;
  }

  explicit PlanReader(Mistake& mistake) : mistake_(mistake) {}

 private:
  template <typename Action>
  void for_each(const Value& list, std::size_t most, Action action) {
    const std::size_t size = list.size(most);
    for (std::size_t i = 0; i < size && !mistake_.any(); ++i) action(list.entry(i), i);
  }

  Vertex vertex(const Value& entry, std::size_t index) {
    Vertex vertex;
    entry.expect_object({"id", "role", "addr", "rack", "in", "out", "sum"});
    const auto id = static_cast<std::int64_t>(index);
    const Value given = entry.member("id");
    if (given.integer(0, kLastId) != id) given.refuse(fmt::format("{}, its place in the list", id));
    vertex.role = static_cast<Role>(entry.member("role").word({"worker", "helper", "switch"}));
    if (entry.has("addr")) vertex.name = entry.member("addr").text(kLongestName);
    if (entry.has("rack")) {
      vertex.rack = static_cast<std::uint32_t>(entry.member("rack").integer(0, UINT32_MAX));
    }
    if (entry.has("sum")) vertex.sum = entry.member("sum").speed();
    const bool has_nic = vertex.role != Role::kSwitch;
    if (has_nic || entry.has("in")) vertex.in = entry.member("in").speed();
    if (has_nic || entry.has("out")) vertex.out = entry.member("out").speed();
    return vertex;
  }

  Link link(const Value& entry) {
    if (entry.size(3) != 3) {
      entry.refuse("[from, to, bytes per second]");
      return {};
    }
    return {static_cast<VertexId>(entry.entry(0).integer(0, kLastId)),
            static_cast<VertexId>(entry.entry(1).integer(0, kLastId)), entry.entry(2).speed()};
  }

  Domain domain(const Value& entry) {
    Domain domain;
    entry.expect_object({"name", "workers", "mode", "classes", "cert", "tensors"});
    domain.name = entry.member("name").text(kLongestName);
    if (entry.has("mode")) entry.member("mode").word({"sync"});
    for_each(entry.member("workers"), kMaxVertices, [&](const Value& worker, std::size_t) {
      domain.workers.push_back(static_cast<VertexId>(worker.integer(0, kLastId)));
    });
    for_each(entry.member("classes"), kMaxClasses,
             [&](const Value& one, std::size_t) { domain.classes.push_back(size_class(one)); });
    if (entry.has("cert")) {
      domain.certificate = certificate(entry.member("cert"));
    }
    if (entry.has("tensors")) {
      for_each(entry.member("tensors"), kMaxTensors,
               [&](const Value& one, std::size_t) { domain.tensors.push_back(tensor(one)); });
    }
    return domain;
  }

  Certificate certificate(const Value& entry) {
    entry.expect_object({"tau", "lb", "dual"});
    Certificate certificate{entry.member("tau").number(), entry.member("lb").number()};
    if (entry.has("dual")) {
      for_each(entry.member("dual"), kMaxLinks,
               [&](const Value& one, std::size_t) { certificate.dual.push_back(dual_value(one)); });
    }
    return certificate;
  }

  DualValue dual_value(const Value& entry) {
    if (entry.size(4) != 4) {
      entry.refuse("[\"link\", \"in\", \"out\" or \"sum\", from, to, value]");
      return {};
    }
    return {static_cast<Passage>(entry.entry(0).word({"link", "in", "out", "sum"})),
            static_cast<VertexId>(entry.entry(1).integer(0, kLastId)),
            static_cast<VertexId>(entry.entry(2).integer(0, kLastId)), entry.entry(3).number()};
  }

  Tensor tensor(const Value& entry) {
    if (entry.size(2) != 2) {
      entry.refuse("[tag, bytes]");
      return {};
    }
    return {static_cast<std::uint32_t>(entry.entry(0).integer(0, UINT32_MAX)),
            static_cast<std::uint64_t>(entry.entry(1).integer(0, std::int64_t{kMaxTensorBytes}))};
  }

  SizeClass size_class(const Value& entry) {
    SizeClass size_class;
    size_class.rs_ag = rs_ag_;
    entry.expect_object({"max_bytes", "chunk", "window", "divided", "trees"});
    const Value max_bytes = entry.member("max_bytes");
    if (!max_bytes.is_null()) {
      size_class.max_bytes = static_cast<std::uint64_t>(max_bytes.integer(1, kMaxInteger));
    }
    size_class.chunk = static_cast<std::uint64_t>(entry.member("chunk").integer(1, kMaxInteger));
    if (entry.has("window")) {
      size_class.window = static_cast<std::uint32_t>(entry.member("window").integer(1, UINT32_MAX));
    }
    if (entry.has("divided")) size_class.divided = entry.member("divided").flag();
    for_each(entry.member("trees"), kMaxTrees - trees_,
             [&](const Value& one, std::size_t) { size_class.trees.push_back(tree(one)); });
    trees_ += size_class.trees.size();
    return size_class;
  }

  Tree tree(const Value& entry) {
    Tree tree;
    entry.expect_object({"w", "up", "down"});
    tree.weight = static_cast<std::uint32_t>(entry.member("w").integer(1, kWeightUnit));
    tree.up = parents(entry.member("up"));
    if (entry.has("down")) {
      tree.down = parents(entry.member("down"));
      if (tree.down.empty()) entry.member("down").refuse("parents like those of up, or left out");
    }
    return tree;
  }

  Parents parents(const Value& list) {
    Parents parents;
    for_each(list, kMaxVertices, [&](const Value& parent, std::size_t) {
      parents.push_back(static_cast<std::int32_t>(parent.integer(kIsAbsent, kLastId)));
    });
    return parents;
  }

  Mistake& mistake_;
  bool rs_ag_ = false;     // the objective
  std::size_t trees_ = 0;  // read so far
};

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// "[\n  a,\n  b]"; each item is JSON already.
std::string lines(const std::vector<std::string>& items, int indent) {
  std::string text = "[";
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += fmt::format("{}\n{:{}}{}", i == 0 ? "" : ",", "", indent, items[i]);
  }
  return text + "]";
}

template <typename Range, typename Write>
std::vector<std::string> each(const Range& range, Write write) {
  std::vector<std::string> texts;
  for (const auto& item : range) texts.push_back(write(item));
  return texts;
}

std::string write_vertex(const Vertex& vertex, std::size_t id) {
  nlohmann::ordered_json out = {{"id", id}, {"role", role_name(vertex.role)}};
  if (!vertex.name.empty()) out["addr"] = vertex.name;
  if (vertex.rack) out["rack"] = *vertex.rack;
  if (vertex.role != Role::kSwitch || vertex.in != 0) out["in"] = vertex.in;
  if (vertex.role != Role::kSwitch || vertex.out != 0) out["out"] = vertex.out;
  if (vertex.sum) out["sum"] = *vertex.sum;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string write_tree(const Tree& tree) {
  std::string text = fmt::format("{{\"w\":{},\"up\":{}", tree.weight, dump(tree.up));
  if (!tree.down.empty()) text += fmt::format(",\"down\":{}", dump(tree.down));
  return text + "}";
}

std::string write_class(const SizeClass& size_class) {
  const json max_bytes = size_class.max_bytes ? json(*size_class.max_bytes) : json();
  std::string text =
      fmt::format("{{\"max_bytes\":{},\"chunk\":{},", dump(max_bytes), size_class.chunk);
  if (size_class.window != 0) text += fmt::format("\"window\":{},", size_class.window);
  if (size_class.divided) text += fmt::format("\"divided\":{},", *size_class.divided);
  return text + fmt::format("\"trees\":{}}}", lines(each(size_class.trees, write_tree), 8));
}

std::string write_dual_value(const DualValue& dual) {
  static constexpr std::array<std::string_view, 4> kNames = {"link", "in", "out", "sum"};
  return fmt::format("[\"{}\",{},{},{}]", kNames[static_cast<std::size_t>(dual.passage)], dual.from,
                     dual.to, dump(dual.value));
}

std::string write_certificate(const Certificate& certificate) {
  const std::string text =
      fmt::format("{{\"tau\":{},\"lb\":{}", dump(certificate.tau), dump(certificate.lower_bound));
  if (certificate.dual.empty()) return text + "}";
  return text + fmt::format(",\"dual\":{}}}", lines(each(certificate.dual, write_dual_value), 6));
}

std::string write_domain(const Domain& domain) {
  std::string text = fmt::format(
      "{{\"name\":{},\"mode\":\"sync\",\n    \"workers\":{},\n    \"classes\":{}",
      dump(domain.name), dump(domain.workers), lines(each(domain.classes, write_class), 6));
  if (domain.certificate) {
    text += fmt::format(",\n    \"cert\":{}", write_certificate(*domain.certificate));
  }
  if (!domain.tensors.empty()) {
    text += fmt::format(
        ",\n    \"tensors\":{}",
        lines(each(domain.tensors,
                   [](const Tensor& one) { return fmt::format("[{},{}]", one.tag, one.bytes); }),
              6));
  }
  return text + "}";
}

}  // namespace

std::string_view objective(const Plan& plan) {
  const bool is_rs_ag =
      !plan.domains.empty() && !plan.domains[0].classes.empty() && plan.domains[0].classes[0].rs_ag;
  return kObjectives[is_rs_ag ? 1 : 0];
}

Result<Plan> read_plan(std::string_view text) {
  const auto document = parse_document(text, kMaxPlanBytes);
  if (!document) return document.error();
  Mistake mistake;
  Plan plan = PlanReader(mistake).read(Value(*document, mistake));
  if (mistake.any()) return Error{Status::kInvalidArgument, mistake.text()};
  return plan;
}

std::string write_plan(const Plan& plan) {
  std::vector<std::string> vertices;
  for (std::size_t id = 0; id < plan.network.vertices.size(); ++id) {
    vertices.push_back(write_vertex(plan.network.vertices[id], id));
  }
  const auto links = each(plan.network.links, [](const Link& link) {
    return dump(json::array({link.from, link.to, link.capacity}));
  });
  std::string sections;
  if (plan.pipeline) sections += ",\n \"pipeline\":" + write_section(*plan.pipeline);
  if (plan.async) sections += ",\n \"async\":" + write_section(*plan.async);
  return fmt::format(
      "{{\"fmt\":\"{}\",\"epoch\":{},\"method\":{},\"objective\":{},\n \"nodes\":{},\n "
      "\"links\":{},\n \"domains\":{}{}}}\n",
      kPlanFormat, plan.epoch, dump(plan.method), dump(objective(plan)), lines(vertices, 2),
      lines(links, 2), lines(each(plan.domains, write_domain), 2), sections);
}

}  // namespace tally::plan
