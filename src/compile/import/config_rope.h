// The rotations that a config.json asks for, whatever family it is of.
#pragma once

#include <vector>

#include "compile/import/config_facts.h"

namespace kvern::import {

namespace hf {
class Config;
}

// Empty where the file names no base and no scaling (families differ in what they take then), and
// where it asks for what Kvern does not know.
std::vector<ConfigRope> config_ropes(const hf::Config& config, const ConfigFacts& facts);

}  // namespace kvern::import
