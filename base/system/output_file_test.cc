#include "base/system/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tally {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "tally-output-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ / name; }
  static void plant(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static mode_t mode_of(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }
  auto files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  fs::path folder_;
};

TEST_F(OutputFileTest, ReplacesTheFileWhenItIsWhole) {
  plant(at("f"), "before");
  auto file = OutputFile::create(at("f"));
  ASSERT_TRUE(file) << file.error().message;
  file->stream() << "after" << std::flush;
  EXPECT_EQ(text_of(at("f")), "before");
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(text_of(at("f")), "after");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, LeavesTheFileAsItWasWhenTheWriterGivesUp) {
  plant(at("f"), "before");
  {
    auto file = OutputFile::create(at("f"));
    ASSERT_TRUE(file);
    file->stream() << "half" << std::flush;
    EXPECT_EQ(files(), 1) << "a killed writer would leave it behind";
  }
  EXPECT_EQ(text_of(at("f")), "before");
  EXPECT_EQ(files(), 1);
}

TEST_F(OutputFileTest, KeepsPermissionsAndLinks) {
  plant(at("f"), "before");
  ASSERT_EQ(::chmod(at("f").c_str(), 0640), 0);
  fs::create_symlink("f", at("link"));
  ASSERT_TRUE(write_file(at("link"), "after"));
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(text_of(at("f")), "after");
  EXPECT_EQ(mode_of(at("f")), 0640u);
}

TEST_F(OutputFileTest, GivesANewFileThePermissionsOfTheUmask) {
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write_file(at("new"), "text"));
  ::umask(before);
  EXPECT_EQ(mode_of(at("new")), 0640u);
}

TEST_F(OutputFileTest, WritesWhatIsNoRegularFileAsItIs) {
  ASSERT_TRUE(write_file("/dev/null", "text"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, NamesThePathThatCannotBeWritten) {
  const std::string missing = at("no/f");
  const auto nowhere = OutputFile::create(missing);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message, "cannot write " + missing + ": No such file or directory");
  const auto folder = OutputFile::create(folder_.string());
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, "cannot write " + folder_.string() + ": Is a directory");
}

TEST_F(OutputFileTest, ReportsThatThereIsNoRoom) {
  const auto full = write_file("/dev/full", std::string(1 << 16, 'x'));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message, "cannot write /dev/full: No space left on device");
}

}  // namespace
}  // namespace tally
