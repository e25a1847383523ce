#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/auth/key_ring.h"
#include "net/auth/secrets.h"

namespace tally::net::auth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::int64_t kNow = 1'800'000'000;

TEST(Secret, ItsTextGivesTheSameSecret) {
  const Secret secret = Secret::generate();
  EXPECT_THAT(secret.text(), StartsWith("tally-secret-"));
  const auto parsed = Secret::parse(secret.text());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->shown()->identity, secret.shown()->identity);
  EXPECT_TRUE(parsed->shown()->key == secret.shown()->key);
  EXPECT_NE(Secret::generate().text(), secret.text());
}

TEST(Secret, OfAPersonIsStretched) {
  const auto secret = Secret::parse("secret:correct horse battery");
  ASSERT_TRUE(secret);
  EXPECT_TRUE(shown("secret:correct horse battery")->key == secret->shown()->key);
  EXPECT_FALSE(shown("secret:correct horse batterz")->key == secret->shown()->key);
}

TEST(Secret, RefusesWhatIsNone) {
  std::string cut = Secret::generate().text();
  cut.pop_back();
  EXPECT_THAT(Secret::parse(cut).error().message, HasSubstr("copy it again"));
  EXPECT_THAT(Secret::parse("secret:short").error().message, HasSubstr("5 characters"));
  EXPECT_THAT(Secret::parse("hunter2").error().message, HasSubstr("secret:TEXT"));
  EXPECT_FALSE(Secret::parse(""));
}

TEST(Token, HoldsItsRightsForWhoHasTheSecret) {
  const Secret secret = Secret::generate();
  const auto text = secret.make_token({.id = {}, .job = "bert", .expires = kNow});
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, Not(HasSubstr("bert")));
  const auto token = shown(*text);
  ASSERT_TRUE(token);
  const auto read = secret.read_token(token->identity);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rights.job, "bert");
  EXPECT_EQ(read->rights.expires, kNow);
  EXPECT_EQ(read->rights.id.size(), 16U);
  EXPECT_TRUE(read->key == token->key);
  EXPECT_EQ(rights_of(secret, *text)->id, read->rights.id);
}

TEST(Token, OfAnotherSecretIsUnknown) {
  const auto text = Secret::generate().make_token({.id = {}, .job = "bert"});
  const Secret other = Secret::generate();
  EXPECT_FALSE(other.read_token(shown(*text)->identity));
  EXPECT_FALSE(rights_of(other, *text));
}

TEST(Token, TwoOfTheSameRightsHaveNothingInCommon) {
  const Secret secret = Secret::generate();
  const auto one = shown(*secret.make_token({.id = {}, .job = "bert"}));
  const auto two = shown(*secret.make_token({.id = {}, .job = "bert"}));
  EXPECT_NE(one->identity, two->identity);
  EXPECT_FALSE(one->key == two->key);
}

TEST(Token, TheLengthOfItsIdentityIsNotThatOfTheName) {
  const Secret secret = Secret::generate();
  EXPECT_EQ(shown(*secret.make_token({.id = {}, .job = "a"}))->identity.size(),
            shown(*secret.make_token({.id = {}, .job = "a much longer name"}))->identity.size());
}

TEST(Token, NamesHaveLimits) {
  const Secret secret = Secret::generate();
  EXPECT_FALSE(secret.make_token({}));
  EXPECT_FALSE(secret.make_token({.id = {}, .job = std::string(129, 'x')}));
  const auto longest = secret.make_token({.id = {}, .job = std::string(128, 'x')});
  ASSERT_TRUE(longest);
  EXPECT_LE(shown(*longest)->identity.size(), kMaxIdentity);
  EXPECT_EQ(secret.read_token(shown(*longest)->identity)->rights.job, std::string(128, 'x'));
}

TEST(Token, CoversANameOrAllThatBeginSo) {
  EXPECT_TRUE((Rights{.id = {}, .job = "bert"}.covers("bert")));
  EXPECT_FALSE((Rights{.id = {}, .job = "bert"}.covers("bert2")));
  EXPECT_TRUE((Rights{.id = {}, .job = "bert-*"}.covers("bert-17")));
  EXPECT_FALSE((Rights{.id = {}, .job = "bert-*"}.covers("bert")));
}

TEST(Token, RefusesTextsThatWereCut) {
  const std::string text = *Secret::generate().make_token({.id = {}, .job = "bert"});
  EXPECT_FALSE(shown(text.substr(0, text.size() - 1)));
  EXPECT_FALSE(shown("tally-token-"));
  EXPECT_FALSE(shown("tally-token-x"));
  EXPECT_FALSE(shown(""));
}

TEST(Token, AKeyOfAJobInstanceHasTheSameForm) {
  const PreSharedKey key = generate_key();
  const auto read = shown(text_of(key));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->identity, key.identity);
  EXPECT_TRUE(read->key == key.key);
}

class KeyRingTest : public ::testing::Test {
 protected:
  KeyRingTest() { EXPECT_TRUE(ring.add_secret(secret)); }

  Secret secret = Secret::generate();
  KeyRing ring;
};

TEST_F(KeyRingTest, FindsTheSecret) {
  const auto key = secret.shown();
  const auto found = ring.find(key->identity, kNow);
  EXPECT_FALSE(found.refusal);
  EXPECT_TRUE(found.key == key->key);
  EXPECT_EQ(found.proof.kind, Proof::Kind::kSecret);
  EXPECT_TRUE(found.proof.covers("any job"));
}

TEST_F(KeyRingTest, FindsTokensUntilTheyExpire) {
  const auto token = shown(*secret.make_token({.id = {}, .job = "bert", .expires = kNow}));
  const auto found = ring.find(token->identity, kNow - 1);
  EXPECT_FALSE(found.refusal);
  EXPECT_TRUE(found.key == token->key);
  EXPECT_TRUE(found.proof.covers("bert"));
  EXPECT_FALSE(found.proof.covers("gpt"));
  EXPECT_EQ(ring.find(token->identity, kNow).refusal, KeyRing::Refusal::kExpired);
}

TEST_F(KeyRingTest, DoesNotAcceptARevokedToken) {
  const std::string text = *secret.make_token({.id = {}, .job = "bert"});
  const auto before = ring.find(shown(text)->identity, kNow);
  ring.revoke(rights_of(secret, text)->id);
  EXPECT_EQ(ring.find(shown(text)->identity, kNow).refusal, KeyRing::Refusal::kRevoked);
  EXPECT_EQ(ring.refusal_of(before.proof, kNow), KeyRing::Refusal::kRevoked);
}

TEST_F(KeyRingTest, FindsAConfiguredJobsToken) {
  ASSERT_TRUE(ring.add_chosen("hunter2", "bert"));
  const auto found = ring.find(shown("hunter2")->identity, kNow);
  EXPECT_FALSE(found.refusal);
  EXPECT_TRUE(found.proof.covers("bert"));
  EXPECT_FALSE(found.proof.covers("gpt"));
  ASSERT_TRUE(ring.add_chosen("hunter2", "gpt"));
  EXPECT_TRUE(ring.find(shown("hunter2")->identity, kNow).proof.covers("bert"))
      << "two jobs may have one token";
  EXPECT_TRUE(ring.find(shown("hunter2")->identity, kNow).proof.covers("gpt"));
}

TEST_F(KeyRingTest, ANodeWithoutASecretKnowsNoTokens) {
  EXPECT_FALSE(*KeyRing().prove(*secret.make_token({.id = {}, .job = "bert"}), kNow));
}

TEST_F(KeyRingTest, FindsTheKeysOfJobInstances) {
  const PreSharedKey key = generate_key();
  bool runs = true;
  ring.set_instances([&](std::string_view identity) {
    return runs && identity == key.identity ? &key.key : nullptr;
  });
  const auto found = ring.find(key.identity, kNow);
  EXPECT_EQ(found.proof.kind, Proof::Kind::kInstance);
  EXPECT_EQ(found.proof.rights.id, key.identity);
  EXPECT_TRUE(found.key == key.key);
  runs = false;
  EXPECT_EQ(ring.find(key.identity, kNow).refusal, KeyRing::Refusal::kUnknown);
}

TEST_F(KeyRingTest, ARequestMayShowWhatTlsWould) {
  const std::string token = *secret.make_token({.id = {}, .job = "bert", .expires = kNow});
  EXPECT_EQ((*ring.prove(secret.text(), kNow))->kind, Proof::Kind::kSecret);
  EXPECT_TRUE((*ring.prove(token, kNow - 1))->covers("bert"));
  EXPECT_FALSE(*ring.prove("hunter2", kNow)) << "a text that a person chose";
  EXPECT_THAT(ring.prove(token, kNow).error().message, HasSubstr("has expired"));
  auto forged = *shown(token);
  forged.key = crypto::Key::random();
  EXPECT_FALSE(ring.prove(text_of(forged), kNow - 1));
  EXPECT_FALSE(ring.prove(Secret::generate().text(), kNow));
  EXPECT_FALSE(ring.prove("tally-token-cut", kNow));
  EXPECT_EQ(ring.prove(text_of(generate_key()), kNow).status(), Status::kStaleEpoch)
      << "a job that is not here yet";
}

TEST_F(KeyRingTest, HostileIdentitiesAreUnknown) {
  for (const std::string& identity : {std::string(), std::string("t."), std::string(5000, 'x'),
                                      "t." + std::string(400, 'A'), std::string("t.\0", 3)}) {
    EXPECT_EQ(ring.find(identity, kNow).refusal, KeyRing::Refusal::kUnknown);
  }
  EXPECT_EQ(KeyRing().find("s.x", kNow).refusal, KeyRing::Refusal::kUnknown);
}

}  // namespace
}  // namespace tally::net::auth
