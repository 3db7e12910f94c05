// Fields come from plan files: a value that no enum has, or a size that no kernel takes, is refused
// by prepare() and by validate(), never indexed with.
#include <gmock/gmock.h>

#include "kernels/kv_append.h"
#include "kernels/kv_attention.h"
#include "kernels/linear.h"
#include "tests/kernels/place_slot.h"
#include "tests/kernels/run_op.h"

namespace kvern::kernels {
namespace {

using ::testing::HasSubstr;
using Fields = std::vector<NamedField>;

std::string refusal(const char* family, const Fields& fields) {
  try {
    find_family(family)->prepare(fields, {});
  } catch (const InternalError& error) {
    return std::string("internal: ") + error.what();
  } catch (const Error& error) {
    return std::string(code_name(error.code())) + ": " + error.what();
  }
  return "accepted";
}

Fields with(Fields fields, const char* name, int64_t value) {
  for (NamedField& field : fields) {
    if (field.name != name) continue;
    field.value = value;
    return fields;
  }
  throw std::runtime_error(std::string("no field ") + name);
}

const Fields kEmbedding = {{1, "vocabulary", int64_t{32}}, {2, "dim", int64_t{16}},
                           {3, "storage", int64_t{1}},     {4, "group", int64_t{0}},
                           {5, "scale", int64_t{1}},       {6, "has_min", false}};

Fields linear() {
  return to_fields(LinearDesc{.n = 16, .k = 32, .storage = DType::kI8, .group = 32});
}

template <class Desc>
Desc with_slot(int32_t head_dim) {
  Desc desc;
  static_cast<KvSlotDesc&>(desc) = testing::place_slot(2, head_dim, head_dim, {}, {}, 16);
  return desc;
}

Fields attention(int32_t head_dim = 32) {
  auto desc = with_slot<KvAttentionDesc>(head_dim);
  desc.heads = 4;
  return to_fields(desc);
}

TEST(HostileFields, GoodOnesAreAccepted) {
  EXPECT_EQ(refusal("embedding", kEmbedding), "accepted");
  EXPECT_EQ(refusal("linear", linear()), "accepted");
  EXPECT_EQ(refusal("kv_append", to_fields(with_slot<KvAppendDesc>(32))), "accepted");
  EXPECT_EQ(refusal("kv_attention", attention()), "accepted");
}

TEST(HostileFields, EnumsOutsideTheirValues) {
  // 3 is f8e4m3: a type, but none of a weight or of a scale; 10 is the first that is no type.
  for (const int64_t value : {3, 10, 200, 255}) {
    SCOPED_TRACE(value);
    for (const char* name : {"storage", "scale"}) {
      EXPECT_THAT(refusal("embedding", with(kEmbedding, name, value)), HasSubstr("invalid_plan"));
      EXPECT_THAT(refusal("linear", with(linear(), name, value)), HasSubstr("invalid_plan"));
      const Fields floats = with(linear(), "storage", 0);
      EXPECT_THAT(refusal("linear", with(floats, name, value)), HasSubstr("invalid_plan"));
    }
    EXPECT_THAT(refusal("linear", with(linear(), "activations", value)), HasSubstr("invalid_plan"));
  }
  for (const int64_t value : {5, 6, 10, 200, 255}) {
    SCOPED_TRACE(value);
    for (const char* name : {"k_storage", "v_storage"}) {
      const Fields append = to_fields(with_slot<KvAppendDesc>(32));
      EXPECT_THAT(refusal("kv_append", with(append, name, value)), HasSubstr("invalid_plan"));
      EXPECT_THAT(refusal("kv_attention", with(attention(), name, value)),
                  HasSubstr("invalid_plan"));
    }
    EXPECT_THAT(refusal("kv_attention", with(attention(), "mask", value)),
                HasSubstr("invalid_plan"));
  }
  for (const int64_t value : {14, 200, 255}) {
    EXPECT_THAT(refusal("elementwise", {{1, "op", value}, {2, "dim", int64_t{8}}}),
                HasSubstr("invalid_plan"));
  }
  EXPECT_THAT(refusal("linear", with(linear(), "storage", 256)), HasSubstr("cannot hold 256"));
}

TEST(HostileFields, UnknownTypesHaveNoNameAndNoSize) {
  EXPECT_EQ(dtype_name(static_cast<DType>(200)), "unknown");
  EXPECT_EQ(dtype_bits(static_cast<DType>(200)), 0);
  EXPECT_EQ(dtype_bits(DType::kBool), 8);
}

// What a build asks before it writes a plan that no engine could load.
TEST(HostileFields, ValidateNamesTheLimit) {
  const Family& family = *find_family("kv_attention");
  EXPECT_NO_THROW(family.validate(attention(1024)));
  try {
    family.validate(attention(2048));
    ADD_FAILURE() << "heads of 2048 elements were accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("heads of 2048 elements: at most 1024 are supported"));
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("damaged")));
  }
  EXPECT_THAT(refusal("kv_attention", attention(2048)), HasSubstr("build it again"));
}

}  // namespace
}  // namespace kvern::kernels
