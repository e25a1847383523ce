// The element types and operations of base/element.h under the names that this folder uses.
#pragma once

#include "base/element.h"

namespace tally::summation {

using tally::element_bytes;
using tally::ElementType;
using tally::kElementTypes;
using tally::kOperationNames;
using tally::name;
using tally::Operation;
using tally::parse_element_type;
using tally::parse_operation;

}  // namespace tally::summation
