// SPDX-License-Identifier: BSD-3-Clause
// The multi-device names that clients import, as far as they have a meaning in one process with one
// device; the rest raises.
#include <bindings/bindings.h>
#include <bindings/call.h>

#include <base/error.h>
#include <base/options.h>
#include <ir/visitor.h>

#include <algorithm>
#include <functional>
#include <map>

namespace nvfuser::python {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  NVF_CHECK_FAIL(what, ": several devices are not supported yet");
}

// A mesh of device ids, row-major.
struct DeviceMesh {
  std::vector<int64_t> devices;
  std::vector<int64_t> shape;

  std::string toString() const {
    size_t next = 0;
    std::function<std::string(size_t)> level = [&](size_t dim) -> std::string {
      std::string out = "{";
      for (int64_t i = 0; i < shape[dim]; ++i) {
        out += i == 0 ? "" : " ";
        out += dim + 1 == shape.size() ? std::to_string(devices[next++]) : level(dim + 1);
      }
      return out + "}";
    };
    return "DeviceMesh" + (shape.empty() ? std::string("{}") : level(0));
  }
};

DeviceMesh makeMesh(MeshDevices devices) {
  DeviceMesh mesh;
  if (py::hasattr(devices, "tolist")) {
    for (py::handle n : devices.attr("shape")) {
      mesh.shape.push_back(n.cast<int64_t>());
    }
    devices = devices.attr("flatten")().attr("tolist")();
  }
  for (py::handle d : devices) {
    mesh.devices.push_back(d.cast<int64_t>());
  }
  if (mesh.shape.empty()) {
    mesh.shape.push_back(static_cast<int64_t>(mesh.devices.size()));
  }
  std::vector<int64_t> sorted = mesh.devices;
  std::sort(sorted.begin(), sorted.end());
  NVF_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
            "DeviceMesh: device ids must be unique");
  return mesh;
}

// This process alone.
struct Communicator {
  static Communicator& instance() {
    static Communicator communicator;
    for (const char* size : {"OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "SLURM_NTASKS"}) {
      if (environmentInt(size, 1) > 1 && !isOptionDisabled(DisableOption::Multidevice)) {
        refuse(std::string("Communicator: ") + size + " = " + environmentString(size));
      }
    }
    return communicator;
  }
};

// The part of a tensor that this process has of a 1-D mesh that it is cut over along `axis`.
TorchTensor shardAlong(const DeviceMesh& mesh, const TorchTensor& tensor, int64_t axis) {
  NVF_CHECK(mesh.shape.size() == 1 && !mesh.devices.empty(),
            "shard_tensor: expected a 1-D mesh, got ", mesh.toString());
  const auto rank = tensor.attr("dim")().cast<int64_t>();
  NVF_CHECK(axis >= -rank && axis < rank, "shard_tensor: axis ", axis,
            " is out of range for a tensor of ", rank, " dimensions");
  const auto extent = tensor.attr("size")(axis).cast<int64_t>();
  const auto parts = static_cast<int64_t>(mesh.devices.size());
  NVF_CHECK(extent % parts == 0, "shard_tensor: the extent ", extent, " of axis ", axis,
            " is not divisible by the ", parts, " devices of the mesh");
  const auto mine = std::find(mesh.devices.begin(), mesh.devices.end(), 0);
  const int64_t index = mine == mesh.devices.end() ? 0 : mine - mesh.devices.begin();
  return tensor.attr("narrow")(axis, index * (extent / parts), extent / parts).attr("contiguous")();
}

// Meshes by tensor. A tensor's fusion tells whether the entry is still of this tensor.
using Meshes = std::map<const TensorView*, std::pair<std::weak_ptr<Fusion>, DeviceMesh>>;

Meshes& meshes() {
  static auto* table = new Meshes();
  return *table;
}

void setMesh(TensorView& tv, const DeviceMesh& mesh) {
  if (mesh.devices.size() != 1) {
    refuse(tv.toString() + " on " + mesh.toString());
  }
  std::erase_if(meshes(), [](const auto& entry) { return entry.second.first.expired(); });
  meshes()[&tv] = {tv.fusion()->weak_from_this(), mesh};
}

const DeviceMesh* meshOf(const TensorView* tv) {
  auto it = meshes().find(tv);
  return it == meshes().end() || it->second.first.expired() ? nullptr : &it->second.second;
}

TorchTensor shardLike(const TorchTensor& tensor, const TensorView& tv) {
  NVF_CHECK(meshOf(&tv) != nullptr, "shard_tensor: ", tv.toString(), " has no device mesh");
  return tensor; // all of it is on the only device
}

struct Sharding {
  DeviceMesh mesh;
  std::map<ParallelType, int64_t> axes; // logical
};

// The logical axis that a loop axis comes from, along outer sides.
int64_t logicalAxisOf(const TensorView* tv, const IterDomain* id) {
  const auto logical = logicalIds(tv);
  while (id != nullptr) {
    const auto it = std::find(logical.begin(), logical.end(), id);
    if (it != logical.end()) {
      return it - logical.begin();
    }
    const Expr* def = id->definition();
    id = def == nullptr ? nullptr : def->input(0)->as<IterDomain>();
  }
  return -1;
}

enum class CommunicatorBackend { Nccl, Ucc, Cuda };

struct MultiDeviceExecutorParams {
  bool use_allocation_cache = false;
  int64_t number_of_streams = 4;
  CommunicatorBackend backend_type = CommunicatorBackend::Nccl;
  bool offset_stream_indexing_by_rank = false;
  bool inter_stream_synchronization = false;
};

// Runs a fusion on this process's device, in the caller's stream: there is nothing to communicate,
// so that the parameters decide nothing.
class MultiDeviceExecutor {
 public:
  MultiDeviceExecutor(const Fusion& fusion, const MultiDeviceExecutorParams& params)
      : cache_(std::make_shared<Fusion>(fusion)) {
    NVF_CHECK(params.number_of_streams > 0,
              "MultiDeviceExecutor: number_of_streams must be positive, got ",
              params.number_of_streams);
    for (const TensorView* tv : fusion.allTvs()) {
      for (const IterDomain* id : tv->getLoopDomain()) {
        if (id->isDeviceDim() && meshOf(tv) == nullptr) {
          refuse("MultiDeviceExecutor: " + tv->toString() +
                 " is parallelized over devices without a mesh of one device");
        }
      }
    }
  }
  TorchTensors run(const InputsArg& args) {
    const CallArguments call(args);
    return py::reinterpret_steal<py::object>(runFusion(cache_, call).release());
  }
  std::string toString() const {
    return "MultiDeviceExecutor on one device:\n" + cache_.sharedFusion()->printMath();
  }

 private:
  FusionExecutorCache cache_;
};

void bindExecutorParams(py::module_& multi) {
  using P = MultiDeviceExecutorParams;
  py::class_<P> params(multi, "MultiDeviceExecutorParams", "How a MultiDeviceExecutor works.");
  params.def(py::init<>());
  const auto field = [&](const char* name, auto member) {
    params.def_property(
        name, [member](const P& p) { return p.*member; },
        [member, name](P& p, std::remove_cvref_t<decltype(P().*member)> value) {
          if (value != P().*member) {
            warnIgnored(std::string("MultiDeviceExecutorParams.") + name,
                        "there is one device, and nothing to communicate");
          }
          p.*member = value;
        });
  };
  field("use_allocation_cache", &P::use_allocation_cache);
  field("number_of_streams", &P::number_of_streams);
  field("backend_type", &P::backend_type);
  field("offset_stream_indexing_by_rank", &P::offset_stream_indexing_by_rank);
  field("inter_stream_synchronization", &P::inter_stream_synchronization);
}

void bindExecutor(py::module_& multi) {
  using P = MultiDeviceExecutorParams;
  py::class_<MultiDeviceExecutor>(multi, "MultiDeviceExecutor",
                                  "Runs a copy of a fusion on all devices: this process's.")
      .def(py::init<const Fusion&, const P&>(), py::arg("fusion"),
           py::arg_v("params", P(), "MultiDeviceExecutorParams()"),
           "RuntimeError: tensors are parallelized over several devices.")
      .def("run", &MultiDeviceExecutor::run, py::arg("args"), "The list of outputs.")
      .def("__str__", &MultiDeviceExecutor::toString)
      .def("__repr__", &MultiDeviceExecutor::toString);
}

} // namespace

ShardingsResult outputShardings(const Fusion& fusion) {
  py::list shardings;
  const DeviceMesh* any = nullptr;
  for (const TensorView* tv : fusion.allTvs()) {
    any = any == nullptr ? meshOf(tv) : any;
  }
  for (size_t i = 0; i < fusion.outputs().size() && any != nullptr; ++i) {
    const OutputAlias& alias = fusion.outputAliases()[i];
    if (alias.input != nullptr && alias.hidden) {
      continue;
    }
    const auto* tv = fusion.outputs()[i]->as<TensorView>();
    Sharding sharding{meshOf(tv) != nullptr ? *meshOf(tv) : *any, {}};
    for (const IterDomain* id : tv->getLoopDomain()) {
      if (id->isDeviceDim()) {
        sharding.axes[id->parallelType()] = logicalAxisOf(tv, id);
      }
    }
    shardings.append(py::cast(sharding));
  }
  return py::object(shardings);
}

void bindMultidevice(py::module_& m) {
  py::enum_<CommunicatorBackend>(m, "CommunicatorBackend", "What moves data between devices.")
      .value("nccl", CommunicatorBackend::Nccl)
      .value("ucc", CommunicatorBackend::Ucc)
      .value("cuda", CommunicatorBackend::Cuda);
  auto multi = m.def_submodule("multidevice", "Meshes of devices and sharding.");
  py::class_<DeviceMesh>(multi, "DeviceMesh", "Device ids in a grid of any rank.")
      .def(py::init(&makeMesh), py::arg("devices"))
      .def_property_readonly("size", [](const DeviceMesh& mesh) { return mesh.devices.size(); })
      .def_property_readonly("shape", [](const DeviceMesh& mesh) { return mesh.shape; })
      .def("shard_tensor", &shardAlong, py::arg("tensor"), py::arg("axis"),
           "The part of this process, a contiguous copy.")
      .def("__repr__", &DeviceMesh::toString);
  py::class_<Communicator, std::unique_ptr<Communicator, py::nodelete>>(
      multi, "Communicator", "The processes that run together: this one.")
      .def_static("instance", &Communicator::instance, py::return_value_policy::reference,
                  "RuntimeError if a launcher started several processes.")
      .def("is_available", [](const Communicator&) { return false; })
      .def("size", [](const Communicator&) { return 1; })
      .def("rank", [](const Communicator&) { return 0; })
      .def("local_size", [](const Communicator&) { return 1; })
      .def("local_rank", [](const Communicator&) { return 0; })
      .def("barrier", [](const Communicator&) {});
  py::class_<Sharding>(multi, "Sharding", "How a tensor lies on the devices of a mesh.")
      .def_property_readonly("mesh", [](const Sharding& sharding) { return sharding.mesh; })
      .def(
          "axis_sharded_on",
          [](const Sharding& sharding, ParallelType type) {
            auto it = sharding.axes.find(type);
            return it == sharding.axes.end() ? -1 : it->second;
          },
          py::arg("parallel_type"), "The logical axis that is cut, or -1.");
  bindExecutorParams(multi);
  bindExecutor(multi);
  multi.def("shard_tensor", &shardLike, py::arg("tensor"), py::arg("tv"),
            "The part of a tensor that belongs to this process as `tv` is sharded.");
  py::class_<TensorView, Val, std::shared_ptr<TensorView>> tensor_view =
      m.attr("TensorView").cast<py::class_<TensorView, Val, std::shared_ptr<TensorView>>>();
  tensor_view.def("set_device_mesh", &setMesh, py::arg("mesh"),
                  "The devices that the tensor lies on. RuntimeError: more than one.");
}

} // namespace nvfuser::python
