// What ports and interfaces have counted.
#include "control/cli/doctor/counters.h"

#include "tests/support/control/fake_machine.h"

namespace tally::control::doctor {
namespace {

std::string of_port(const char* file) {
  return std::string("sys/class/infiniband/mlx5_0/ports/1/") + file;
}

using CountersTest = MachineTest;

TEST_F(CountersTest, ZeroesAndOrdinaryOnesAreFine) {
  EXPECT_EQ(check_counters(machine()).front().level, Level::kOk);
  add_roce_device();
  expect(about(check_counters, "mlx5_0/1"), Level::kOk, "shows no counters");
  write(of_port("hw_counters/out_of_sequence"), "0");
  write(of_port("hw_counters/rx_write_requests"), "4711");
  write(of_port("counters/port_xmit_wait"), "0");
  expect(about(check_counters, "mlx5_0/1"), Level::kOk, "3 counters, and none tells of trouble");
}

TEST_F(CountersTest, ReportsTheMeaningOfEachThatCounted) {
  add_roce_device();
  write(of_port("hw_counters/packet_seq_err"), "12");
  write(of_port("hw_counters/rp_cnp_handled"), "5");
  write(of_port("hw_counters/rx_icrc_encapsulated"), "1");
  write(of_port("counters/port_xmit_wait"), "7");
  expect(about(check_counters, "packet_seq_err"), Level::kWarning,
         "12: the other side missed packets", "ethtool -S eth2");
  expect(about(check_counters, "rp_cnp_handled"), Level::kNote, "5: this machine was told to slow");
  expect(about(check_counters, "rx_icrc_encapsulated"), Level::kWarning, "ICRC", "cable");
  expect(about(check_counters, "port_xmit_wait"), Level::kNote, "7: ");
  EXPECT_EQ(check_counters(machine()).size(), 4u);
}

TEST_F(CountersTest, GarbageIsUnknown) {
  add_roce_device();
  write(of_port("hw_counters/packet_seq_err"), "N/A (no PMA)");
  expect(about(check_counters, "packet_seq_err"), Level::kNote, "unknown (", "by hand");
}

TEST(CounterMeanings, AreCompleteAndKnownByName) {
  EXPECT_EQ(find_counter("rx_write_requests"), nullptr);
  EXPECT_EQ(find_counter(""), nullptr);  // no empty row
  for (const char* name :
       {"out_of_sequence", "np_cnp_sent", "rp_cnp_handled", "rx_icrc_encapsulated",
        "local_ack_timeout_err", "packet_seq_err", "rnr_nak_retry_err", "port_xmit_wait"}) {
    const CounterMeaning* meaning = find_counter(name);
    ASSERT_NE(meaning, nullptr) << name;
    EXPECT_NE(meaning->level, Level::kOk) << name;
    EXPECT_FALSE(meaning->meaning.empty() || meaning->remedy.empty()) << name;
  }
}

using PfcTest = MachineTest;

TEST_F(PfcTest, InterfacesWithoutPausesAreFine) {
  expect(about(check_pfc, "PFC"), Level::kOk, "no RoCE interface");
  add_roce_device();
  expect(about(check_pfc, "eth2"), Level::kOk, "counts no pauses");
  system_.statistics["eth2"] = {{"rx_packets", 12}};
  expect(about(check_pfc, "eth2"), Level::kOk, "counts no pauses");
  system_.statistics["eth2"] = {{"rx_prio3_pause", 0}, {"tx_prio3_pause", 0}, {"rx_packets", 1}};
  expect(about(check_pfc, "eth2"), Level::kOk, "no pause and no discard in 2 statistics");
}

TEST_F(PfcTest, ReportsWhichSidePausedTheOther) {
  add_roce_device();
  system_.statistics["eth2"] = {{"rx_prio3_pause", 12},
                                {"rx_prio3_pause_duration", 99},
                                {"rx_prio3_pause_transition", 98},
                                {"tx_prio3_pause", 0}};
  expect(about(check_pfc, "eth2"), Level::kNote,
         "the network made this machine pause (rx_prio3_pause 12)", "rp_cnp_handled");
  system_.statistics["eth2"] = {{"tx_prio3_pause", 3}, {"tx_prio4_pause", 4}};
  expect(about(check_pfc, "eth2"), Level::kNote, "(tx_prio3_pause 3, tx_prio4_pause 4)",
         "--check numa");
}

TEST_F(PfcTest, WhatItShouldPreventIsAWarning) {
  add_roce_device();
  system_.statistics["eth2"] = {{"rx_pause_ctrl_phy", 5}};
  expect(about(check_pfc, "eth2"), Level::kWarning, "the whole link",
         "ethtool -A eth2 rx off tx off; mlnx_qos -i eth2");
  system_.statistics["eth2"] = {{"rx_prio0_discards", 5}, {"rx_discards", 0}};
  expect(about(check_pfc, "eth2"), Level::kWarning, "thrown away", "mlnx_qos -i eth2");
  system_.statistics["eth2"] = {{"tx_pause_storm_error_events", 1}};
  expect(about(check_pfc, "eth2"), Level::kWarning, "pause storm", "ethtool -i eth2");
  system_.statistics["eth2"] = {{"rx_pfc_ena_frames_pri3", 1}};  // bnxt_en
  expect(about(check_pfc, "eth2"), Level::kNote, "the network made this machine pause");
}

}  // namespace
}  // namespace tally::control::doctor
