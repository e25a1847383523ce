// The element types and operations of base/element.h under the names that this folder uses.
#pragma once

#include "base/element.h"
#include "summation/codes.h"

namespace tally::summation {

using tally::element_bytes;
using tally::ElementTypeInfo;
using tally::kElementTypes;
using tally::kOperationNames;
using tally::name;
using tally::parse_element_type;
using tally::parse_operation;
using tally::partial_type;

}  // namespace tally::summation
