// The file of a network, read and written.
#include "control/plan/json/network_json.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "control/plan/model/validate.h"
#include "tests/support/control/test_plans.h"

namespace tally::plan {
namespace {

using nlohmann::json;

// Every key of the format.
constexpr const char* kTwoRacks = R"({"fmt":"tally-network/1",
 "racks":[
  {"name":"r0","speed":2e9},
  {"name":"r1","to":"spine","up":1e9,"down":4e9},
  {"name":"r2"}],
 "switches":[{"name":"spine"}],
 "machines":[
  {"name":"w0","role":"worker","address":"tcp:10.0.0.1:7733","rack":"r0","nic":1e9,"sum":4e9},
  {"name":"w1","role":"worker","rack":"r1","in":2e9,"out":1e9},
  {"name":"w2","role":"worker","rack":"r2","nics":[
    {"speed":1e9},{"to":"r2","speed":2e9},{"to":"spine","in":3e9,"out":4e9}]},
  {"name":"h","role":"helper","nic":5e9}],
 "links":[
  {"between":["core","spine"],"speed":8e9},
  {"between":["r2","spine"],"forward":6e9,"back":7e9},
  {"from":"h","to":"spine","speed":9e9},
  {"from":"spine","to":"h","speed":3e9}]}
)";
constexpr VertexId kW0 = 0, kW1 = 1, kW2 = 2, kH = 3, kR0 = 4, kR1 = 5, kR2 = 6, kSpine = 7,
                   kCoreSwitch = 8;

std::string error_in(const std::string& text) {
  const auto network = read_network(text);
  return network ? "" : network.error().message;
}

std::vector<std::tuple<VertexId, VertexId, double>> links_of(const Network& network) {
  std::vector<std::tuple<VertexId, VertexId, double>> links;
  for (const Link& link : network.links) links.emplace_back(link.from, link.to, link.capacity);
  return links;
}

TEST(NetworkFile, DescribesRacksSwitchesNicsAndLinks) {
  const auto network = read_network(kTwoRacks);
  ASSERT_TRUE(network.ok()) << network.error().message;
  std::vector<std::string> names;
  for (const Vertex& vertex : network->vertices) names.push_back(vertex.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"w0", "w1", "w2", "h", "r0", "r1", "r2", "spine", "core"}));
  EXPECT_EQ(network->machines(), 4U);
  EXPECT_EQ(links_of(*network), (decltype(links_of(*network)){{kW0, kR0, 1e9},
                                                              {kW1, kR1, 1e9},
                                                              {kW2, kR2, 3e9},
                                                              {kW2, kSpine, 4e9},
                                                              {kH, kSpine, 5e9},
                                                              {kR0, kW0, 1e9},
                                                              {kR0, kCoreSwitch, 2e9},
                                                              {kR1, kW1, 2e9},
                                                              {kR1, kSpine, 1e9},
                                                              {kR2, kW2, 3e9},
                                                              {kR2, kSpine, 6e9},
                                                              {kSpine, kW2, 3e9},
                                                              {kSpine, kH, 3e9},
                                                              {kSpine, kR1, 4e9},
                                                              {kSpine, kR2, 7e9},
                                                              {kSpine, kCoreSwitch, 8e9},
                                                              {kCoreSwitch, kR0, 2e9},
                                                              {kCoreSwitch, kSpine, 8e9}}));
  EXPECT_EQ(network->vertices[kW0].sum, 4e9);
  EXPECT_EQ(network->vertices[kW1].rack, 1U);
  EXPECT_EQ(network->vertices[kR2].rack, 2U);
  EXPECT_FALSE(network->vertices[kSpine].rack.has_value());
  EXPECT_TRUE(validate(*network).ok()) << validate(*network).error().message;
}

TEST(NetworkFile, MachinesHaveTheSpeedOfTheirLinksUnlessItIsGiven) {
  const auto network = read_network(kTwoRacks);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->vertices[kW2].in, 6e9);
  EXPECT_EQ(network->vertices[kW2].out, 7e9);
  EXPECT_EQ(network->vertices[kW1].in, 2e9);
  EXPECT_EQ(network->vertices[kW1].out, 1e9);
  EXPECT_EQ(network->vertices[kH].in, 5e9);
}

TEST(NetworkFile, IsReadAsItWasWritten) {
  const auto network = read_network(kTwoRacks);
  ASSERT_TRUE(network.ok()) << network.error().message;
  const std::string text = write_network(*network);
  const auto again = read_network(text);
  ASSERT_TRUE(again.ok()) << again.error().message << text;
  EXPECT_EQ(write_network(*again), text);
  EXPECT_EQ(links_of(*again), links_of(*network));
  for (VertexId id = 0; id < network->vertices.size(); ++id) {
    const Vertex &one = network->vertices[id], &other = again->vertices[id];
    EXPECT_EQ(one.name, other.name);
    EXPECT_EQ(one.role, other.role);
    EXPECT_EQ(one.rack, other.rack);
    EXPECT_EQ(one.in, other.in);
    EXPECT_EQ(one.out, other.out);
    EXPECT_EQ(one.sum, other.sum);
  }
}

TEST(NetworkFile, VerticesWithoutANameAreWrittenWithOne) {
  const Network network =
      star_network({machine(Role::kWorker, 1, "a"), machine(Role::kWorker, 2, "a"),
                    machine(Role::kHelper, 3), machine(Role::kWorker, 4, "switch 4")});
  const auto again = read_network(write_network(network));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->vertices[1].name, "a'");
  EXPECT_EQ(again->vertices[2].name, "helper 2");
  EXPECT_EQ(again->vertices[4].name, "switch 4'");
  EXPECT_EQ(again->links.size(), network.links.size());
}

TEST(NetworkFile, MachinesMayBeJoinedWithoutSwitches) {
  const auto network = read_network(R"({"fmt":"tally-network/1","machines":[
    {"name":"a","role":"worker"},{"name":"b","role":"worker"}],
    "links":[{"between":["a","b"],"forward":2,"back":3}]})");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->vertices[0].out, 2);
  EXPECT_EQ(network->vertices[0].in, 3);
  EXPECT_EQ(links_of(*network), (decltype(links_of(*network)){{0, 1, 2}, {1, 0, 3}}));
}

TEST(NetworkFile, CoreNeedNotBeListed) {
  const auto nics = read_network(R"({"fmt":"tally-network/1","machines":[
    {"name":"a","role":"worker","nics":[{"to":"core","speed":2}]},
    {"name":"b","role":"worker"}],"links":[{"between":["b","core"],"speed":3}]})");
  ASSERT_TRUE(nics.ok()) << nics.error().message;
  EXPECT_EQ(nics->name_of(2), "core");
  EXPECT_EQ(links_of(*nics),
            (decltype(links_of(*nics)){{0, 2, 2}, {1, 2, 3}, {2, 0, 2}, {2, 1, 3}}));
}

TEST(NetworkFile, MachinesThatNothingElseJoinsAreJoinedToCore) {
  const auto network = read_network(R"({"fmt":"tally-network/1","machines":[
    {"name":"a","role":"worker","nic":5},
    {"name":"b","role":"worker","in":3,"out":4},
    {"name":"c","role":"worker","nic":6}],"links":[{"between":["c","a"],"speed":7}]})");
  ASSERT_FALSE(network.ok()) << "links join a and c, so their NICs only limit these";
  EXPECT_EQ(network.error().message.rfind("machines[1].name = \"b\": must be the name of a ", 0),
            0U)
      << network.error().message;
  const auto star = read_network(R"({"fmt":"tally-network/1","machines":[
    {"name":"a","role":"worker","nic":5},
    {"name":"b","role":"worker","in":3,"out":4}]})");
  ASSERT_TRUE(star.ok()) << star.error().message;
  EXPECT_EQ(star->vertices.size(), 3U);
  EXPECT_EQ(links_of(*star),
            (decltype(links_of(*star)){{0, 2, 5}, {1, 2, 4}, {2, 0, 5}, {2, 1, 3}}));
  const auto again = read_network(write_network(*star));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(links_of(*again), links_of(*star));
}

TEST(NetworkFile, TheExampleOfTheDocumentationIsRead) {
  std::ifstream file(TALLY_PLANNING_PAGE);
  const std::string page(std::istreambuf_iterator<char>(file), {});
  const std::size_t begin = page.find("{\"fmt\":\"tally-network/1\"");
  ASSERT_NE(begin, std::string::npos) << TALLY_PLANNING_PAGE;
  const auto network = read_network(page.substr(begin, page.find("```", begin) - begin));
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->machines(), 5U);
}

// -- Errors ------------------------------------------------------------------------------------

std::string file_with(const std::string& members) {
  return R"({"fmt":"tally-network/1",)" + members + "}";
}

TEST(NetworkFile, ErrorsNameWhatMustChange) {
  const std::string a = R"({"name":"a","role":"worker"})";
  const std::string joined = R"("switches":[{"name":"s"}],"machines":[
    {"name":"a","role":"worker","nics":[{"to":"s","speed":1}]},
    {"name":"b","role":"worker","nics":[{"to":"s","speed":1}]}],"links":)";
  const std::pair<std::string, std::string> cases[] = {
      {"", "is empty"},
      {"[]", "the file = []: must be an object"},
      {R"({"fmt":"gsplan/1","domains":[]})", "fmt = \"gsplan/1\": must be \"tally-network/1\""},
      {file_with(R"("machines":[])"), "machines = []: must be a list of at least one machine"},
      {file_with(R"("racks":[])"), "machines: missing"},
      {file_with(R"("machines":[)" + a + "]"),
       "machines[0].name = \"a\": must be the name of a machine "
       "with a link each way; give it \"nic\""},
      {file_with(R"("racks":[{"name":"r","to":"s"}],"machines":[)" + a + "]"),
       "racks[0].speed: missing"},
      {file_with(R"("racks":[{"name":"r","up":1}],"machines":[)" + a + "]"),
       "racks[0].down: missing"},
      {file_with(R"("racks":[{"name":"r","to":"r","speed":1}],"machines":[)" + a + "]"),
       "racks[0].to = \"r\": must be the name of another rack or switch"},
      {file_with(R"("racks":[{"name":"core","speed":1}],"machines":[)" + a + "]"),
       "racks[0].name = \"core\": must be another name, because \"core\" is the switch above "
       "racks"},
      {file_with(R"("racks":[{"name":"r","to":"q","speed":1},{"name":"q","to":"r","speed":1}],)"
                 R"("machines":[)" +
                 a + "]"),
       "racks[1] = \"q\": must be given no link to \"r\", which has one to it already; leave out "
       "\"to\" and the speeds"},
      {file_with(R"("racks":[{"name":"r","speed":"100Gbit"}],"machines":[)" + a + "]"),
       "racks[0].speed = \"100Gbit\": must be a number of bytes per second, like 12.5e9"},
      {file_with(R"("racks":[{"name":"r","up":1,"down":1,"speed":1}],"machines":[)" + a + "]"),
       "racks[0] = \"r\": must be given either \"speed\", or \"up\" and \"down\""},
      {file_with(
           R"("racks":[{"name":"r","speed":1}],"machines":[{"name":"core","role":"worker"}])"),
       "racks[0] = \"r\": must be given \"to\", because \"core\""},
      {file_with(R"("machines":[{"name":"core","role":"worker","nic":1}])"),
       "machines[0] = \"core\": must be given \"rack\", because \"core\" is the name of a machine"},
      {file_with(R"("racks":[{"name":"r"}],"machines":[{"name":"a","role":"worker","rack":"r"}])"),
       "machines[0] = \"a\": must be given its speed: \"nic\""},
      {file_with(
           R"("switches":[{"name":"s"}],"machines":[{"name":"a","role":"worker","rack":"s"}])"),
       "machines[0].rack = \"s\": must be the name of a rack of this file"},
      {file_with(R"("machines":[{"name":"a","role":"worker","nics":[{"speed":1}]}])"),
       "machines[0].nics[0].to: missing"},
      {file_with(R"("machines":[{"name":"a","role":"worker","nics":[{"to":"a","speed":1}]}])"),
       "machines[0].nics[0].to = \"a\": must be the name of a switch or rack"},
      {file_with(R"("machines":[{"name":"a","role":"worker","nic":1,"nics":[]}])"),
       "machines[0] = \"a\": must be given either \"nic\" or \"nics\""},
      {file_with(joined + R"([{"between":["a"],"speed":1}])"),
       "links[0].between = [\"a\"]: must be a list of the names of two machines, racks or "
       "switches"},
      {file_with(joined + R"([{"between":["a","a"],"speed":1}])"),
       "links[0].between = [\"a\",\"a\"]: must be a list of two different names"},
      {file_with(joined + R"([{"from":"a","to":"a","speed":1}])"),
       "links[0].to = \"a\": must be another name than \"from\""},
      {file_with(joined + R"([{"between":["a","c"],"speed":1}])"),
       "links[0].between[1] = \"c\": must be "
       "the name of a machine, rack or"},
      {file_with(joined + R"([{"from":"a","to":"s","speed":1}])"),
       "links[0] = {\"from\":\"a\",\"speed\":1,\"to\":\"s\"}: must be a link whose ends nothing "
       "else joins in this direction"},
      {file_with(joined + R"([{"from":"a","to":"b","between":["a","b"],"speed":1}])"), "links[0]."},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_NE(error_in(text).find(part), std::string::npos) << text << ": " << error_in(text);
  }
}

TEST(NetworkFile, MachinesThatLinksDoNotReachAreNamed) {
  const auto text = [](const std::string& links) {
    return file_with(R"("machines":[{"name":"a","role":"worker"},{"name":"b","role":"worker"},
                   {"name":"c","role":"worker"}],"links":[)" +
                     links + "]");
  };
  EXPECT_EQ(error_in(text(R"({"between":["a","b"],"speed":1},{"from":"b","to":"c","speed":1})")),
            "machines[2].name = \"c\": must be the name of a machine with a link each way; give it "
            "\"nic\", \"nics\" or \"links\"");
  const std::string apart = R"("switches":[{"name":"s"}],"machines":[
    {"name":"a","role":"worker"},{"name":"b","role":"worker"},
    {"name":"c","role":"worker","nics":[{"to":"s","speed":1}]}],
    "links":[{"between":["a","b"],"speed":1})";
  const std::string remedy =
      "give the racks and switches between them \"to\" and \"speed\", or \"up\" and \"down\", or "
      "add "
      "\"links\"";
  EXPECT_EQ(error_in(file_with(apart + "]")),
            "machines[2].name = \"c\": must be the name of a machine to which links lead from the "
            "first machine, \"a\"; " +
                remedy);
  EXPECT_EQ(error_in(file_with(apart + R"(,{"from":"a","to":"s","speed":1}])")),
            "machines[2].name = \"c\": must be the name of a machine from which links lead to the "
            "first machine, \"a\"; " +
                remedy);
  EXPECT_EQ(error_in(file_with(apart + R"(,{"between":["a","s"],"speed":1}])")), "");
}

struct Damage {
  std::string text;   // of a file that is wrong in one place
  std::string place;  // begin of the message; of the whole file it is empty
};

std::string path_of(const json::json_pointer& pointer) {
  std::string path, rest = pointer.to_string();
  while (!rest.empty()) {
    const std::size_t next = std::min(rest.find('/', 1), rest.size());
    const std::string part = rest.substr(1, next - 1);
    rest.erase(0, next);
    const bool is_index = part.find_first_not_of("0123456789") == std::string::npos;
    path += is_index ? "[" + part + "]" : (path.empty() ? "" : ".") + part;
  }
  return path;
}

void damage_all(const json& whole, const json::json_pointer& at, std::vector<Damage>& damages) {
  const auto with_value = [&](const json::json_pointer& place, const json& value) {
    json damaged = whole;
    damaged[place] = value;
    return damaged.dump();
  };
  const json& value = whole[at];
  const std::string path = path_of(at);
  const json wrongs[] = {nullptr,
                         true,
                         "no name of a vertex",
                         -7,
                         1e300,
                         json::array({1}),
                         json::object({{"x", 1}}),
                         std::string(300, 'x')};
  for (const json& wrong : wrongs) {
    const bool is_other_text =
        wrong.is_string() && (path.ends_with("name") || path.ends_with("ss"));
    if (is_other_text && wrong.get<std::string>().size() < 256) continue;  // a name like any other
    damages.push_back({with_value(at, wrong), path});
  }
  if (value.is_object()) {
    damages.push_back(
        {with_value(at / "bogus", 1), (path.empty() ? "" : path + ".") + "\"bogus\""});
  }
  if (!value.is_structured()) return;
  for (const auto& [key, member] : value.items()) {
    damage_all(whole, value.is_object() ? at / key : at / std::stoul(key), damages);
  }
}

TEST(NetworkFile, EveryDamageIsRefusedWithItsPlace) {
  std::vector<Damage> damages;
  damage_all(json::parse(kTwoRacks), json::json_pointer(), damages);
  ASSERT_GT(damages.size(), 100U);
  for (const Damage& damage : damages) {
    const std::string error = error_in(damage.text);
    EXPECT_EQ(error.rfind(damage.place, 0), 0U)
        << damage.place << ": \"" << error << "\" of " << damage.text;
    EXPECT_NE(error.find("must be"), std::string::npos) << error;
  }
}

TEST(NetworkFile, AnEntryGivenTwiceIsRefused) {
  const json whole = json::parse(kTwoRacks);
  for (const char* key : {"machines", "racks", "switches", "links"}) {
    for (std::size_t i = 0; i < whole[key].size(); ++i) {
      json damaged = whole;
      damaged[key].push_back(whole[key][i]);
      const std::string place = std::string(key) + "[" + std::to_string(whole[key].size()) + "]";
      EXPECT_EQ(error_in(damaged.dump()).rfind(place, 0), 0U)
          << place << ": " << error_in(damaged.dump());
    }
  }
}

TEST(NetworkFile, EveryBeginOfAFileIsRefusedOrUnderstood) {
  const std::string text = kTwoRacks;
  for (std::size_t length = 0; length + 2 < text.size(); ++length) {
    const std::string error = error_in(text.substr(0, length));
    const char* const begin = length == 0 ? "is empty" : "ends early, at line ";
    EXPECT_EQ(error.find(begin), 0U) << length << ": " << error;
  }
}

// Removing a key gives a message, or a network that is possible.
TEST(NetworkFile, AKeyThatIsLeftOutIsRefusedOrHasADefault) {
  const json whole = json::parse(kTwoRacks);
  std::size_t refused = 0, read = 0;
  const json leaves = whole.flatten();
  for (const auto& [path, value] : leaves.items()) {
    json damaged = whole;
    const json::json_pointer place(path);
    if (!damaged[place.parent_pointer()].is_object()) continue;
    damaged[place.parent_pointer()].erase(place.back());
    const auto network = read_network(damaged.dump());
    network ? ++read : ++refused;
    if (network) {
      EXPECT_TRUE(validate(*network).ok()) << path << ": " << validate(*network).error().message;
    } else {
      EXPECT_NE(network.error().message.find("must be"), std::string::npos)
          << network.error().message;
    }
  }
  EXPECT_GT(refused, 20U);
  EXPECT_GT(read, 2U);
}

}  // namespace
}  // namespace tally::plan
