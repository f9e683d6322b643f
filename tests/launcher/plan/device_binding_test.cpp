#include "launcher/plan/device_binding.hpp"

#include <algorithm>
#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Entries = std::vector<std::string>;
using Bindings = std::vector<DeviceBinding>;

NodeDevices masked(const std::string& mask) { return find_devices({{"CUDA_VISIBLE_DEVICES", mask}}, {}); }

NodeDevices found(int count) {
    return find_devices(
        {}, {.gpus = std::vector<Gpu>(static_cast<std::size_t>(count)), .source = "/dev/nvidia*"});
}

BindingRequest request(GpuBind bind, int workers, NodeDevices devices) {
    BindingRequest result;
    result.bind = bind;
    result.local_workers = workers;
    result.workers_source = "--nproc-per-node " + std::to_string(workers);
    result.devices = std::move(devices);
    return result;
}

Bindings bound(const BindingRequest& wanted) {
    auto result = bind_devices(wanted);
    REQUIRE(std::holds_alternative<Bindings>(result));
    return std::get<Bindings>(result);
}

std::string refused(const BindingRequest& wanted) {
    auto result = bind_devices(wanted);
    REQUIRE(std::holds_alternative<std::string>(result));
    return std::get<std::string>(result);
}

}  // namespace

TEST_CASE("what a mask lets through, as CUDA reads it") {
    const std::pair<const char*, Entries> table[] = {
        {"0", {"0"}},
        {"4,5", {"4", "5"}},
        {"2,0,1", {"2", "0", "1"}},
        {" 1 , 2", {"1", "2"}},
        {"GPU-8932f937-d72c,GPU-1", {"GPU-8932f937-d72c", "GPU-1"}},
        {"MIG-GPU-1/0/0,MIG-77", {"MIG-GPU-1/0/0", "MIG-77"}},
        {"", {}},
        {"-1", {}},
        {"NoDevFiles", {}},
        {"none", {}},
        {"0,-1,1", {"0"}},
        {"0,,1", {"0"}},
        {"0,", {"0"}},
        {",0", {}},
        {"1,x,2", {"1"}},
        {"1x", {}},
    };
    for (const auto& [mask, expected] : table) {
        INFO("'" << mask << "'");
        CHECK(mask_entries(mask) == expected);
    }
}

TEST_CASE("single: a worker sees its own entry, as it was written") {
    CHECK(bound(request(GpuBind::single, 2, masked("4,5"))) == Bindings{{"4", "0"}, {"5", "0"}});
    CHECK(bound(request(GpuBind::single, 2, masked("GPU-aa, MIG-bb,7"))) ==
          Bindings{{"GPU-aa", "0"}, {"MIG-bb", "0"}});
    CHECK(bound(request(GpuBind::single, 2, found(8))) == Bindings{{"0", "0"}, {"1", "0"}});
}

TEST_CASE("all: the list stays as it was inherited, and the local rank is the index") {
    CHECK(bound(request(GpuBind::all, 2, masked("4,5,6"))) ==
          Bindings{{std::nullopt, "0"}, {std::nullopt, "1"}});
    CHECK(bound(request(GpuBind::all, 2, found(2))) == Bindings{{std::nullopt, "0"}, {std::nullopt, "1"}});
}

TEST_CASE("auto is all for Python and single for everything else") {
    BindingRequest wanted = request(GpuBind::automatic, 2, masked("4,5"));
    CHECK(bound(wanted) == bound(request(GpuBind::single, 2, masked("4,5"))));
    wanted.is_python = true;
    CHECK(bound(wanted) == bound(request(GpuBind::all, 2, masked("4,5"))));
}

TEST_CASE("without devices nothing is set and nothing refused") {
    for (GpuBind bind : {GpuBind::automatic, GpuBind::single, GpuBind::all, GpuBind::none}) {
        for (const NodeDevices& devices : {found(0), masked(""), masked("-1"), masked("NoDevFiles")}) {
            CHECK(bound(request(bind, 3, devices)) == Bindings(3));
        }
    }
}

TEST_CASE("none leaves everything alone, whatever the numbers") {
    CHECK(bound(request(GpuBind::none, 9, masked("4"))) == Bindings(9));
}

TEST_CASE("more workers than devices are refused with both numbers and where they come from") {
    for (GpuBind bind : {GpuBind::automatic, GpuBind::single, GpuBind::all}) {
        // Who has asked for one each is not told to leave that.
        const std::string none =
            bind == GpuBind::single ? "" : ", --gpu-bind none leaves the devices to the program";
        CHECK(refused(request(bind, 4, masked("4,5"))) ==
              "4 workers (--nproc-per-node 4) but 2 GPUs (CUDA_VISIBLE_DEVICES=4,5); --share-gpus lets "
              "workers share" +
                  none);
    }
    CHECK(refused(request(GpuBind::single, 2, found(1))).find("but 1 GPU (/dev/nvidia*)") !=
          std::string::npos);
}

TEST_CASE("shared devices are taken in turn") {
    BindingRequest wanted = request(GpuBind::single, 5, masked("4,5"));
    wanted.share_gpus = true;
    CHECK(bound(wanted) == Bindings{{"4", "0"}, {"5", "0"}, {"4", "0"}, {"5", "0"}, {"4", "0"}});
    wanted.bind = GpuBind::all;
    CHECK(bound(wanted)[4] == DeviceBinding{std::nullopt, "0"});
    CHECK(bound(wanted)[3] == DeviceBinding{std::nullopt, "1"});
}

TEST_CASE("no binding ever widens what the launcher was given") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int turn = 0; turn < 500; ++turn) {
        std::string mask;
        const int entries = static_cast<int>(random() % 5);
        for (int i = 0; i < entries; ++i) {
            if (i > 0) mask += ',';
            if (random() % 3 == 0) mask += "GPU-";
            mask += std::to_string(random() % 16);
        }
        BindingRequest wanted = request(GpuBind::single, 1 + static_cast<int>(random() % 6), masked(mask));
        wanted.share_gpus = true;
        const Entries allowed = mask_entries(mask);
        for (const DeviceBinding& binding : bound(wanted)) {
            if (!binding.mask) continue;
            INFO("mask " << mask << " gave " << *binding.mask);
            CHECK(std::find(allowed.begin(), allowed.end(), *binding.mask) != allowed.end());
        }
    }
}

TEST_CASE("the words of --gpu-bind") {
    CHECK(parse_gpu_bind("auto") == GpuBind::automatic);
    CHECK(parse_gpu_bind("single") == GpuBind::single);
    CHECK(parse_gpu_bind("all") == GpuBind::all);
    CHECK(parse_gpu_bind("none") == GpuBind::none);
    CHECK_FALSE(parse_gpu_bind("Single").has_value());
    CHECK_FALSE(parse_gpu_bind("").has_value());
}

}  // namespace ddprun
