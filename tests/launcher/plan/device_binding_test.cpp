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

Bindings bound(const BindingRequest& wanted, ProgramKind kind = ProgramKind::native) {
    REQUIRE(refuse_devices(wanted).empty());
    Bindings bindings;
    for (int local_rank = 0; local_rank < wanted.local_workers; ++local_rank)
        bindings.push_back(bind_device(wanted, kind, local_rank));
    return bindings;
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

TEST_CASE("all: an inherited list stays, any other is written out, and the local rank is the index") {
    CHECK(bound(request(GpuBind::all, 2, masked("4,5,6"))) ==
          Bindings{{std::nullopt, "0"}, {std::nullopt, "1"}});
    CHECK(bound(request(GpuBind::all, 2, found(3))) == Bindings{{"0,1,2", "0"}, {"0,1,2", "1"}});
    const NodeDevices behind_rocr = find_devices({{"ROCR_VISIBLE_DEVICES", "5,GPU-ab"}}, {});
    CHECK(bound(request(GpuBind::all, 2, behind_rocr)) == Bindings{{"0,1", "0"}, {"0,1", "1"}});
    CHECK(behind_rocr.variable == "HIP_VISIBLE_DEVICES");
    // A list of cards would leave half of the tiles of those that have two.
    const NodeDevices intel =
        find_devices({}, {.vendor = GpuVendor::intel, .gpus = std::vector<Gpu>(2), .source = "/dev/dri"});
    CHECK(bound(request(GpuBind::all, 1, intel)) == Bindings{{std::nullopt, "0"}});
}

TEST_CASE("auto is single for native programs and all for everything else") {
    for (const int gpus : {2, 8}) {
        const BindingRequest wanted = request(GpuBind::automatic, gpus, found(gpus));
        const Bindings single = bound(request(GpuBind::single, gpus, found(gpus)), ProgramKind::other);
        const Bindings all = bound(request(GpuBind::all, gpus, found(gpus)), ProgramKind::native);
        CHECK(bound(wanted, ProgramKind::native) == single);
        for (const ProgramKind kind : {ProgramKind::by_python, ProgramKind::python, ProgramKind::other})
            CHECK(bound(wanted, kind) == all);
    }
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
        CHECK(refuse_devices(request(bind, 4, masked("4,5"))) ==
              "4 workers (--nproc-per-node 4) but 2 GPUs (CUDA_VISIBLE_DEVICES=4,5); --share-gpus lets "
              "workers share" +
                  none);
    }
    CHECK(refuse_devices(request(GpuBind::single, 2, found(1))).find("but 1 GPU (/dev/nvidia*)") !=
          std::string::npos);
}

TEST_CASE("a device that is named twice is refused, and the line names it") {
    CHECK_THAT(refuse_devices(request(GpuBind::all, 2, masked("4,4"))),
               Catch::StartsWith("CUDA_VISIBLE_DEVICES=4,4 names 4 twice"));
    CHECK_THAT(refuse_devices(request(GpuBind::single, 1, masked("GPU-a,1,GPU-a"))),
               Catch::Contains("names GPU-a twice"));
    CHECK(refuse_devices(request(GpuBind::none, 2, masked("4,4"))).empty());
    CHECK(refuse_devices(request(GpuBind::all, 2, masked("4,5"))).empty());
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
            // One that is named twice is refused.
            mask += std::to_string(5 * i + static_cast<int>(random() % 5));
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

TEST_CASE("a number is not refused where devices could not be counted") {
    NodeDevices six = found(6);
    CHECK_FALSE(refuse_devices(request(GpuBind::all, 12, six)).empty());
    six.uncounted = "tiles";
    const NodeDevices twelve = with_uncounted(six, 12);
    CHECK(twelve.count == 12);
    CHECK(refuse_devices(request(GpuBind::all, 12, twelve)).empty());
    const Bindings single = bound(request(GpuBind::single, 12, twelve));
    CHECK(single.front() == DeviceBinding{"0", "0"});
    CHECK(single.back() == DeviceBinding{"11", "0"});
    CHECK(bound(request(GpuBind::all, 12, twelve)).back() == DeviceBinding{std::nullopt, "11"});
    CHECK(with_uncounted(six, 4).count == 6);
    CHECK(with_uncounted(found(6), 12).count == 6);
}

}  // namespace ddprun
