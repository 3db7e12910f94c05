// The elements of an Array as text, shared by the printer and the parser of tensor form.
//   {1, 2, 3}   every element     |   5   all elements are 5     |   "…"  left out, when too many
// Floats are written with the fewest digits that give them back; of NaNs only the fact is kept.
// Types of 8 and 4 bits that are no integers are written as their codes.
#pragma once

#include <string>

#include "compile/ir/array.h"
#include "compile/ir/text_cursor.h"

namespace kvern::ir {

// Above so many elements print() leaves them out; such a text cannot be parsed.
inline constexpr int64_t kMaxPrintedElements = 1 << 16;

std::string print_elements(const Array& array);
// "float[2, 2] = {1, 2, 3, 4}"
std::string print_array(const Array& array);
Array parse_array(TextCursor& cursor);
ElementType parse_element_type(TextCursor& cursor);

}  // namespace kvern::ir
