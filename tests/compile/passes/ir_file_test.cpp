// Every tests/passes/<pass>*.ir: `before`, the pass, `after`. The text must come out as written,
// and both graphs must give the same numbers, for several lengths and for a second chunk over the
// KV state of the first. In f32 every pass here keeps each sum's order, so equality is bit for bit.
// KVERN_UPDATE_IR=1 writes the `after` parts anew; read the difference before committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compile/passes/pipeline.h"
#include "tests/compile/passes/same_numbers.h"

namespace kvern::passes {
namespace {

const std::string kFolder = std::string(KVERN_TEST_DATA) + "/passes";

struct IrFile {
  std::string head;  // comments and the line "pass NAME"
  std::string pass;
  std::string before;
  std::string after;
  std::vector<std::string> notes;  // lines "note TEXT" after the pass line
};

IrFile read_ir_file(const std::string& path) {
  std::ifstream file(path);
  IrFile out;
  std::string* part = &out.head;
  for (std::string line; std::getline(file, line);) {
    if (line == "before") {
      part = &out.before;
    } else if (line == "after") {
      part = &out.after;
    } else {
      if (line.starts_with("pass ")) out.pass = line.substr(5);
      if (line.starts_with("note ")) out.notes.push_back(line.substr(5));
      *part += line + "\n";
    }
  }
  return out;
}

std::vector<std::string> ir_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".ir") && name != "llama_tiny.ir") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

class IrFiles : public ::testing::TestWithParam<std::string> {};

TEST_P(IrFiles, PassMakesTheWrittenGraphAndKeepsTheNumbers) {
  const std::string path = kFolder + "/" + GetParam();
  const IrFile file = read_ir_file(path);
  const Pass* pass = find_pass(file.pass);
  ASSERT_NE(pass, nullptr) << "no pass '" << file.pass << "'";
  const ir::Graph before = ir::parse(file.before);
  ir::verify(before);
  ir::Graph graph = before;
  const PassReport report = pass->run(graph);
  ir::verify(graph);
  EXPECT_EQ(report.notes, file.notes);
  if (std::getenv("KVERN_UPDATE_IR") != nullptr) {
    std::ofstream(path) << file.head << "before\n"
                        << ir::print(before) << "after\n"
                        << ir::print(graph);
  } else {
    EXPECT_EQ(ir::print(graph), ir::print(ir::parse(file.after)));
  }
  EXPECT_EQ(report.num_changes > 0, ir::print(graph) != ir::print(before));
  expect_same_numbers(before, graph);

  ir::Graph again = graph;
  EXPECT_EQ(pass->run(again).num_changes, 0) << "a second run finds nothing more to do";
}

INSTANTIATE_TEST_SUITE_P(All, IrFiles, ::testing::ValuesIn(ir_files()), [](const auto& info) {
  return info.param.substr(0, info.param.size() - 3);
});

TEST(IrFiles, CoverEveryPass) {
  for (const Pass& pass : all_passes()) {
    EXPECT_TRUE(std::filesystem::exists(kFolder + "/" + pass.name + ".ir")) << pass.name;
  }
}

}  // namespace
}  // namespace kvern::passes
