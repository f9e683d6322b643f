#include "launcher/agent/feature_options.hpp"

#include <array>
#include <string>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct HeatOptions {
    int degrees = 20;
    std::string place;
};

struct LightOptions {
    bool is_on = false;
};

template <int kNumber>
struct FurtherOptions {
    std::array<char, 100> bytes{};
};

}  // namespace

TEST_CASE("feature options: each feature has a struct of its own, which has its defaults until it is set") {
    FeatureOptions options;
    const FeatureOptions& seen = options;
    CHECK(seen.of<HeatOptions>().degrees == 20);
    options.of<HeatOptions>().degrees = 25;
    CHECK(seen.of<HeatOptions>().degrees == 25);
    options.of<HeatOptions>().place = "hall";
    CHECK(seen.of<HeatOptions>().degrees == 25);
    CHECK_FALSE(seen.of<LightOptions>().is_on);
    CHECK_FALSE(options.of<LightOptions>().is_on);
}

TEST_CASE("feature options: a copy has what was set, and goes its own way") {
    FeatureOptions options;
    options.of<HeatOptions>().degrees = 25;
    FeatureOptions copy = options;
    copy.of<HeatOptions>().degrees = 30;
    CHECK(options.of<HeatOptions>().degrees == 25);
    CHECK(copy.of<HeatOptions>().degrees == 30);
    CHECK(FeatureOptions().of<HeatOptions>().degrees == 20);
}

TEST_CASE("feature options: a row of the command line may keep a reference") {
    FeatureOptions options;
    std::string& place = options.of<HeatOptions>().place;
    options.of<FurtherOptions<0>>(), options.of<FurtherOptions<1>>(), options.of<LightOptions>();
    options.of<FurtherOptions<2>>(), options.of<FurtherOptions<3>>();
    place = "hall";
    CHECK(options.of<HeatOptions>().place == "hall");
}

}  // namespace ddprun
