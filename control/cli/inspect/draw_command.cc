#include "control/cli/inspect/draw_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "control/cli/inspect/answers.h"
#include "control/cli/inspect/graphviz.h"
#include "control/cli/plan/figures.h"
#include "control/cli/plan/plan_files.h"
#include "control/plan/drawing/dot.h"
#include "control/plan/model/load.h"

namespace tally::control {
namespace {

constexpr int kRefusedDrawing = 2;
constexpr Nanos kLongestDrawing = 30 * kSecond;  // Graphviz takes minutes for many trees

std::string title_of(const plan::Plan& plan, const plan::Domain& domain,
                     std::span<const plan::Tree> trees, std::optional<std::size_t> tree) {
  const std::string of = fmt::format("plan \"{}\", domain \"{}\"", plan.method, domain.name);
  if (!tree) return fmt::format("{}: {}", of, count_of(trees.size(), "tree"));
  return fmt::format("{}: tree {}, {:.1f}% of the bytes", of, *tree,
                     100.0 * trees[0].weight / plan::kWeightUnit);
}

}  // namespace

void add_draw(CLI::App& plan, InspectArguments& arguments) {
  DrawArguments& own = arguments.draw;
  auto* draw = plan.add_subcommand(
      "draw", "the trees of a plan as text for Graphviz (dot), or as SVG where dot is installed");
  draw->add_option("PLAN", own.plan, "the plan, a file")->required();
  add_domain_option(*draw, own.domain);
  add_bytes_option(*draw, own.bytes, "draw the trees of an operation of this size");
  draw->add_option(
          "--tree", own.tree,
          "only the tree of this number, as plan check shows it; left out: all trees, with "
          "the share of the bytes on each arrow")
      ->check(CLI::Range(std::size_t{0}, plan::kMaxTrees - 1))
      ->type_name("N");
  auto* svg = draw->add_flag("--svg", own.svg, "as SVG, which the program dot makes of the text");
  draw->add_option("--dot", own.dot, "with --svg: the program dot, or its path")
      ->type_name("PROGRAM")
      ->needs(svg)
      ->capture_default_str();
  draw->add_option("--out", own.out, "the file to write; left out: stdout")->type_name("FILE");
  draw->footer(
      "Boxes are workers, ellipses helpers, diamonds switches, frames racks. Roots have a red\n"
      "line. Exit status: 0 drawn, 1 it could not be written, or dot did not draw it, 2 a file or\n"
      "an option is refused (stderr says why).");
  draw->parse_complete_callback([&arguments] { arguments.verb = InspectVerb::kDraw; });
}

PlanAnswer answer_draw(const DrawArguments& arguments) {
  const auto separate = check_output("--out", arguments.out, {{"PLAN", arguments.plan}});
  if (!separate) return refusal(kRefusedDrawing, separate.error().message);
  const auto bytes = operation_bytes(arguments.bytes);
  if (!bytes) return refusal(kRefusedDrawing, bytes.error().message);
  const auto plan = read_plan_file(arguments.plan, UINT32_MAX);
  if (!plan) return refusal(kRefusedDrawing, plan.error().message);
  const auto domain = find_domain(*plan, arguments.domain);
  if (!domain) {
    return refusal(kRefusedDrawing, fmt::format("{}: {}", arguments.plan, domain.error().message));
  }
  std::span<const plan::Tree> trees = plan::size_class_of(**domain, *bytes).trees;
  if (arguments.tree) {
    if (*arguments.tree >= trees.size()) {
      return refusal(
          kRefusedDrawing,
          fmt::format("--tree {}: an operation of {} bytes has {}; give a number from 0 "
                      "to {}",
                      *arguments.tree, *bytes, count_of(trees.size(), "tree"), trees.size() - 1));
    }
    trees = trees.subspan(*arguments.tree, 1);
  }
  std::string picture = plan::draw_trees(plan->network, (*domain)->workers, trees,
                                         title_of(*plan, **domain, trees, arguments.tree));
  if (arguments.svg) {
    auto svg = svg_of(picture, arguments.dot, kLongestDrawing);
    if (!svg) return refusal(kFailed, svg.error().message);
    picture = std::move(svg).value();
  }
  if (arguments.out.empty()) return {0, picture, ""};
  const auto written = write_out(arguments.out, picture);
  return written ? PlanAnswer{} : refusal(kFailed, written.error().message);
}

}  // namespace tally::control
