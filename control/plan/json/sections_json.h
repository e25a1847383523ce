// The sections "pipeline" and "async" of a plan file. docs/pipelines.md has every key.
#pragma once

#include <string>

#include "control/plan/json/document.h"
#include "control/plan/model/sections.h"

namespace tally::plan {

// Read a section, and note the first mistake at its place. They check types, ranges and sizes;
// validate() checks the rest.
PipelineSection read_pipeline_section(const Value& section);
AsyncSection read_async_section(const Value& section);

// Write one line for each stage. Reading the text gives the same section.
std::string write_section(const PipelineSection& section);
std::string write_section(const AsyncSection& section);

}  // namespace tally::plan
