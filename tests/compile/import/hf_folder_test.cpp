// Folders: one file or shards, and that no name leads out of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "compile/import/hf/join_tokenizer.h"
#include "compile/import/import.h"
#include "kvern/error.h"
#include "tests/compile/import/hf_builder.h"

namespace kvern::import::hf {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

std::string outcome(const fs::path& folder) {
  try {
    load(folder.string());
  } catch (const Error& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "ok";
}

// Shard 1 holds embedding and norms, shard 2 the rest of the layer.
void write_shards(const TestFolder& folder, const std::string& second = "b.safetensors") {
  SafetensorsBuilder one;
  SafetensorsBuilder two;
  Json map;
  const SafetensorsBuilder all = llama_tensors();
  for (const auto& [name, entry] : all.header.items()) {
    if (name == "__metadata__") continue;
    const bool first = name.find("norm") != std::string::npos || name.find("embed") == 6;
    (first ? one : two).add(name, entry["shape"].get<std::vector<int64_t>>());
    map[name] = first ? "a.safetensors" : second;
  }
  folder.write("a.safetensors", one.bytes());
  folder.write("b.safetensors", two.bytes());
  folder.write("config.json", llama_config().dump());
  folder.write("model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

TEST(HfFolder, OneFileAndShardsGiveTheSameModel) {
  const TestFolder single("single");
  single.write("config.json", llama_config().dump());
  single.write("model.safetensors", llama_tensors().bytes());
  single.write("generation_config.json", R"({"eos_token_id": [3, 2]})");
  const ImportedModel one = load(single.path.string());
  EXPECT_EQ(one.stop_ids, (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(one.name, single.path.filename());
  EXPECT_EQ(one.source_hash.size(), 16u);
  EXPECT_THAT(one.warnings, testing::ElementsAre(HasSubstr("no tokenizer")));

  const TestFolder sharded("sharded");
  write_shards(sharded);
  const ImportedModel two = load(sharded.path.string());
  EXPECT_EQ(two.files.size(), 2u);
  EXPECT_EQ(two.graph.files, (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(two.num_parameters, one.num_parameters);
}

TEST(HfFolder, MissingPartsAreNamed) {
  const TestFolder folder("missing");
  EXPECT_THAT(outcome(folder.path), AllOf(HasSubstr("not_found"), HasSubstr("no config.json")));
  folder.write("config.json", llama_config().dump());
  EXPECT_THAT(outcome(folder.path), AllOf(HasSubstr("not_found"), HasSubstr("index.json")));
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(outcome(folder.path), AllOf(HasSubstr("unsupported"), HasSubstr("pytorch_model")));
  write_shards(folder);
  fs::remove(folder.path / "b.safetensors");
  EXPECT_THAT(outcome(folder.path), AllOf(HasSubstr("not_found"), HasSubstr("b.safetensors")));
}

TEST(HfFolder, TheIndexMustTellTheTruth) {
  const TestFolder folder("index");
  write_shards(folder);
  EXPECT_EQ(outcome(folder.path), "ok");
  write_shards(folder, "a.safetensors");
  EXPECT_THAT(outcome(folder.path), HasSubstr("do not belong together"));
  write_shards(folder);
  fs::copy_file(folder.path / "a.safetensors", folder.path / "b.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(outcome(folder.path), HasSubstr("is in two files"));
  for (const char* index : {"{}", "[]", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})",
                            R"({"weight_map": {"a": ""}})", "{"}) {
    folder.write("model.safetensors.index.json", index);
    EXPECT_THAT(outcome(folder.path), HasSubstr("invalid_model")) << index;
  }
}

TEST(HfFolder, NoShardLiesOutside) {
  const TestFolder outside("outside");
  write_shards(outside);
  const TestFolder folder("inside");
  const std::string away = "../" + outside.path.filename().string() + "/b.safetensors";
  for (const std::string& name :
       {away, (outside.path / "b.safetensors").string(), "x/../" + away}) {
    write_shards(folder, name);
    fs::create_directories(folder.path / "x");
    EXPECT_THAT(outcome(folder.path), HasSubstr("leads out of the folder")) << name;
  }
  write_shards(folder);
  fs::remove(folder.path / "b.safetensors");
  fs::create_symlink(outside.path / "b.safetensors", folder.path / "b.safetensors");
  EXPECT_THAT(outcome(folder.path), HasSubstr("leads out of the folder"));
  fs::remove(folder.path / "b.safetensors");
  fs::create_directory_symlink(outside.path, folder.path / "link");
  write_shards(folder, "link/b.safetensors");
  EXPECT_THAT(outcome(folder.path), HasSubstr("leads out of the folder"));
}

TEST(HfFolder, LinksOfAHubCacheLeadIntoItsBlobs) {
  const TestFolder cache("cache");
  const fs::path snapshot = cache.path / "snapshots" / "abc";
  fs::create_directories(snapshot);
  fs::create_directories(cache.path / "blobs");
  cache.write("blobs/1", llama_config().dump());
  cache.write("blobs/2", llama_tensors().bytes());
  fs::create_symlink("../../blobs/1", snapshot / "config.json");
  fs::create_symlink("../../blobs/2", snapshot / "model.safetensors");
  EXPECT_EQ(outcome(snapshot), "ok");
  cache.write("elsewhere", llama_tensors().bytes());
  fs::remove(snapshot / "model.safetensors");
  fs::create_symlink("../../elsewhere", snapshot / "model.safetensors");
  EXPECT_THAT(outcome(snapshot), HasSubstr("leads out of the folder"));
}

TEST(HfFolder, AddedTokensBeyondTheVocabularyAreLeftOut) {
  text::TextModel text;
  text.kind = text::TokenizerKind::kByteLevelBpe;
  text.tokens = {"<e>", "a", "b", "<image>"};
  text.token_types = {text::TokenType::kControl, text::TokenType::kNormal, text::TokenType::kNormal,
                      text::TokenType::kControl};
  text.eos_id = 0;
  text.stop_ids = {0};
  EXPECT_TRUE(drop_foreign_tokens(4, text));
  EXPECT_EQ(text.tokens.size(), 4u);
  EXPECT_TRUE(drop_foreign_tokens(3, text));
  EXPECT_EQ(text.tokens, (std::vector<std::string>{"<e>", "a", "b"}));
  EXPECT_FALSE(drop_foreign_tokens(2, text));  // an ordinary token
  text.tokens.push_back("<x>");
  text.token_types.push_back(text::TokenType::kControl);
  text.pad_id = 3;
  EXPECT_FALSE(drop_foreign_tokens(3, text));
}

TEST(HfFolder, ASafetensorsFileAloneSaysWhatToGive) {
  const TestFolder folder("alone");
  folder.write("model.safetensors", llama_tensors().bytes());
  EXPECT_THAT(outcome(folder.path / "model.safetensors"), HasSubstr("give the folder it lies in"));
}

// Opened for reading, a pipe would wait for its writer; a link may lead anywhere.
TEST(HfFolder, OnlyRegularFilesInsideAreOpened) {
  const TestFolder outside("folder_outside");
  outside.write("secret.json", "{}");
  for (const char* file : {"config.json", "generation_config.json", "tokenizer_config.json"}) {
    for (const bool pipe : {true, false}) {
      const TestFolder folder("folder_kinds");
      folder.write("config.json", llama_config().dump());
      folder.write("model.safetensors", llama_tensors().bytes());
      folder.write("tokenizer.json", "{}");
      const std::filesystem::path path = folder.path / file;
      std::filesystem::remove(path);
      if (pipe) {
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
      } else {
        std::filesystem::create_symlink(outside.path / "secret.json", path);
      }
      try {
        import_folder(folder.path.string(), {});
        ADD_FAILURE() << file << " was read";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr(file),
                                                 testing::HasSubstr(pipe ? "regular" : "out of")));
      }
    }
  }
}

}  // namespace
}  // namespace kvern::import::hf
