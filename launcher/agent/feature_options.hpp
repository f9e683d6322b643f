// FeatureOptions hold what was said to the features of a launcher, and what these have opened early: one
// struct for each feature, which its own header has. Code that carries the options knows none of the structs.
// Pure.
#pragma once

#include <any>
#include <map>
#include <typeindex>
#include <typeinfo>

namespace ddprun {
inline namespace launch {

class FeatureOptions {
  public:
    // Returns the struct, which is made with its defaults when it is asked for first. A reference to it is
    // good until these options are assigned to, or end.
    template <class Options>
    Options& of() {
        std::any& held = all_[typeid(Options)];
        if (!held.has_value()) held.emplace<Options>();
        return *std::any_cast<Options>(&held);
    }

    // Returns the struct; one with its defaults where nothing was set.
    template <class Options>
    const Options& of() const {
        static const Options unset{};
        const auto held = all_.find(typeid(Options));
        return held == all_.end() ? unset : *std::any_cast<Options>(&held->second);
    }

  private:
    std::map<std::type_index, std::any> all_;
};

}  // namespace launch
}  // namespace ddprun
