// train_digits_gpu: train_digits' training on GPUs, one for each worker, with gradients summed by NCCL.
//
//   ddprun --nproc-per-node 2 train_digits_gpu --data apps/data/digits.csv
//
// The flags, the output and the exit codes are train_digits'. A second communicator, of the CPU's backend,
// compares the ranks. Sums are f32, so their last bits depend on the number of ranks, unlike those of
// train_digits.
#include "apps/train_digits/program.hpp"
#include "apps/train_digits_gpu/steps.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_join.hpp"

namespace {

using namespace ddprun;

// Copies to the device.
template <class T>
void put(const CudaPrimaryContext& context, const T* place, const std::vector<T>& values) {
    if (!values.empty())
        context.call("copying to the device", &CudaDriver::copy_to_device,
                     reinterpret_cast<CudaPointer>(place), values.data(), values.size() * sizeof(T));
}

// Waits for what is launched on the device, and copies from there.
std::vector<float> get(const CudaPrimaryContext& context, const float* place, std::size_t count) {
    std::vector<float> values(count);
    context.call("copying from the device", &CudaDriver::copy_to_host, values.data(),
                 reinterpret_cast<CudaPointer>(place), count * sizeof(float));
    return values;
}

std::vector<float> train(Communicator&, const Digits& digits, const Options& options,
                         std::chrono::steady_clock::time_point& started) {
    const TrainingPlan& plan = options.plan;
    Communicator gpu = Communicator::from_env({.backend = BackendChoice::nccl});
    const auto settings = read_nccl_settings(
        current_environment(), {.backend = BackendChoice::nccl, .device = gpu.device()}, gpu.local_rank());
    const auto context =
        std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings->cuda_library), settings->device);
    const auto require = [&](int result) {  // numbered as the driver's
        context->driver().require(static_cast<CudaResult>(result), "a step of the training");
    };
    DeviceState state{plan.hidden, plan.batch_size / static_cast<std::size_t>(gpu.world_size()) + 1,
                      plan.momentum, plan.learning_rate};
    const CudaMemory floats(context, state.size() * sizeof(float));
    const CudaMemory all(context, digits.size() * sizeof(Digit));
    const CudaMemory batch(context, state.most_images * sizeof(std::size_t));
    state.memory = reinterpret_cast<float*>(floats.data());
    state.digits = reinterpret_cast<const Digit*>(all.data());
    state.batch = reinterpret_cast<const std::size_t*>(batch.data());
    put(*context, state.digits, digits);
    put(*context, state.parameters(), Mlp(plan).parameters());
    put(*context, state.velocity(), std::vector<float>(state.count()));
    const CudaScope scope(*context);
    started = std::chrono::steady_clock::now();  // joining is no training
    gpu.broadcast(std::span(state.parameters(), state.count()), 0);
    for (int epoch = 0; epoch < plan.epochs; ++epoch) {
        Totals totals{};
        for (const auto& images : own_images(plan, digits.size(), epoch, gpu.rank(), gpu.world_size())) {
            put(*context, state.batch, images);
            state.images = images.size();
            require(launch_gradients(state));
            gpu.all_reduce(std::span(state.sums(), state.count() + kTotals), ReduceOp::sum);
            require(launch_update(state));
            const std::vector<float> step = get(*context, state.totals(), kTotals);
            for (std::size_t i = 0; i < kTotals; ++i) totals[i] += static_cast<double>(step[i]);
        }
        show_epoch(options, gpu.rank(), epoch, totals);
    }
    return get(*context, state.parameters(), state.count());
}

}  // namespace

int main(int argc, char** argv) {
    return ddprun::run_program("train_digits_gpu", {argv + 1, argv + argc}, train);
}
